//! Every target of `fuzzed`, run over its inputs in `fuzz/corpus`: the inputs that a fuzzer found are plain tests.

mod corpus;
