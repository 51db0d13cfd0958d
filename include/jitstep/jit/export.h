// What is visible outside the libraries: everything else is hidden.
#pragma once

/// Marks what users and the front end may link to.
#define JITSTEP_API __attribute__((visibility("default")))
