//! Pages of the documentation, typed as a reader would.

/// The blocks of a page that are to be typed, in order.
pub fn blocks(page: &str) -> Vec<String> {
    let mut blocks = vec![];
    let mut rest = page;
    while let Some((_, from)) = rest.split_once("```sh\n") {
        let (block, after) = from.split_once("```").expect("a block ends");
        blocks.push(block.to_owned());
        rest = after;
    }
    blocks
}
