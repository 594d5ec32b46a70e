//! The stack that users deploy: what it is made of, that the tiers run on it, that its roles allow what is used and no
//! more, and the commands that deploy it.

mod commands;
mod recursion;
mod rig;
mod rights;
mod stack;
mod tiers;
mod verify;
