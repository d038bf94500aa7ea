//! What parts install in a cluster, as it is shown.

use kubernetes::manifests::DynamicObject;
use logic::exit::Exit;

use crate::cli::Global;
use crate::failure::{Failure, Result};
use crate::output::{self, Format};

/// As they can be handed to `kubectl apply`.
pub fn print(objects: &[DynamicObject], global: &Global) -> Result<Exit> {
    if global.output == Format::Json {
        let list = serde_json::json!({ "apiVersion": "v1", "kind": "List", "items": objects });
        output::print(&format!("{list:#}\n"));
        return Ok(Exit::Done);
    }
    for object in objects {
        let value = serde_json::to_value(object).unwrap_or_default();
        let text = serde_saphyr::to_string(&value)
            .map_err(|error| Failure::new(Exit::Unexpected, &error, "this is a defect"))?;
        output::print(&format!("---\n{text}"));
    }
    Ok(Exit::Done)
}

/// A line each, as `kubectl -o name` has it.
pub fn name(objects: &[DynamicObject]) {
    let names = objects.iter().map(|object| {
        let kind = object.types.as_ref().map_or("", |types| &types.kind).to_lowercase();
        format!("{kind}/{}\n", object.metadata.name.as_deref().unwrap_or_default())
    });
    output::print(&names.collect::<String>());
}
