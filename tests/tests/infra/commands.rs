//! `make deploy` and its kin, as far as an emulator can tell. Filled in below.
