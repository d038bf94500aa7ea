//! Questions to a Prometheus: does this risk concern this machine? One sample, 0 or 1; anything else is no answer.

use std::path::Path;
use std::time::Duration;

use logic::agent::Known;
use serde::Deserialize;

use crate::settings::Settings;

const ANSWER: Duration = Duration::from_secs(10);
const ANSWER_BYTES: u64 = 1 << 20;
const TOKEN_BYTES: u64 = 64 << 10;

pub async fn evaluate(query: &str, settings: &Settings, client: &reqwest::Client) -> Known {
    evaluated(query, settings, client).await.unwrap_or_else(Known::Failed)
}

async fn evaluated(query: &str, settings: &Settings, client: &reqwest::Client) -> Result<Known, String> {
    let Some(endpoint) = &settings.prometheus else {
        return Err("no Prometheus is set: see `prometheus` in [agent]".to_owned());
    };
    let url = format!("{}/api/v1/query", endpoint.trim_end_matches('/'));
    let mut address = reqwest::Url::parse(&url).map_err(|error| format!("{url}: {error}"))?;
    address.query_pairs_mut().append_pair("query", query);
    let mut request = client.get(address).timeout(ANSWER);
    if let Some(path) = &settings.prometheus_token {
        request = request.bearer_auth(token(path)?);
    }
    let response = request.send().await.map_err(|error| oci::chain(&error.without_url()))?;
    let status = response.status();
    let body = oci::http::body(response, &url, ANSWER_BYTES).await.map_err(|error| oci::chain(&error))?;
    let answer: Answer =
        serde_json::from_slice(&body).map_err(|_| format!("{url} answered {status}, and no result"))?;
    known(answer)
}

fn token(path: &Path) -> Result<String, String> {
    let bytes = disk::durable::read_limited(path, TOKEN_BYTES).map_err(|error| oci::chain(&error))?;
    let bytes = bytes.ok_or_else(|| format!("{} does not exist", path.display()))?;
    String::from_utf8(bytes)
        .map(|text| text.trim().to_owned())
        .map_err(|_| format!("{} is not text", path.display()))
}

#[derive(Deserialize)]
#[serde(tag = "status", rename_all = "lowercase")]
enum Answer {
    Success { data: Data },
    Error { error: String },
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum Data {
    Vector(Vec<Sample>),
    Scalar((f64, String)),
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Sample {
    value: (f64, String),
}

fn known(answer: Answer) -> Result<Known, String> {
    let (_, value) = match answer {
        Answer::Error { error } => return Err(error.chars().take(300).collect()),
        Answer::Success { data: Data::Other } => {
            return Err("the result is neither a vector nor a scalar".to_owned());
        }
        Answer::Success { data: Data::Scalar(sample) } => sample,
        Answer::Success { data: Data::Vector(samples) } => match <[Sample; 1]>::try_from(samples) {
            Ok([Sample { value }]) => value,
            Err(samples) => return Err(format!("{} samples, where one is expected", samples.len())),
        },
    };
    match value.as_str() {
        "0" => Ok(Known::Fine),
        "1" => Ok(Known::Concerned),
        other => Err(format!("{:?}, where 0 or 1 is expected", other.chars().take(40).collect::<String>())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Known, String> {
        serde_json::from_str(text).map_err(|error| error.to_string()).and_then(known)
    }

    #[test]
    fn one_sample_of_0_or_1_is_an_answer_and_nothing_else_is() {
        let vector = |samples: &str| {
            read(&format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{samples}]}}}}"#))
        };
        assert_eq!(vector(r#"{"metric":{},"value":[1.5,"0"]}"#), Ok(Known::Fine));
        assert_eq!(vector(r#"{"metric":{"a":"b"},"value":[1,"1"]}"#), Ok(Known::Concerned));
        let scalar = r#"{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}"#;
        assert_eq!(read(scalar), Ok(Known::Concerned));
        for bad in
            ["", r#"{"value":[1,"2"]}"#, r#"{"value":[1,"NaN"]}"#, r#"{"value":[1,"0"]},{"value":[1,"0"]}"#]
        {
            assert!(vector(bad).is_err(), "{bad}");
        }
        assert_eq!(read(r#"{"status":"error","errorType":"bad_data","error":"no"}"#), Err("no".to_owned()));
        let matrix = r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#;
        assert!(read(matrix).is_err());
    }
}
