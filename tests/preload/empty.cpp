// A library that holds nothing: what preloading costs anyway.
