//! Bytes and keys in, verdict out. Nothing here reads a file or the network.
