// What is visible outside the libraries: everything else is hidden.
#pragma once

/// Marks what can be linked to from outside its library: by users where the header is public, by our
/// own libraries, tools and tests where it is private.
#define JITSTEP_API __attribute__((visibility("default")))
