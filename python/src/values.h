// Option values, formats and manifests as Python objects, and back.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "jitstep/jit/manifest.h"
#include "jitstep/jit/plan.h"

namespace jitstep::python {

namespace nb = nanobind;

/// The value of an option. Numbers may be tensors of one element, or any object with __float__. None is null, or the
/// default of a choice. Throws a TypeError or ValueError of Python for other objects.
jit::Value to_value(const jit::Option& option, nb::handle object);

/// None, bool, float, str, or a tuple of floats and None.
nb::object from_value(const jit::Value& value);

/// The keys `state`, `weights`, `seed` and `min_quantized_size` of a parameter group. None means not set. `state` is a
/// codec's name, {"codec": name, option: value, ...}, or a dict of these by slot.
jit::Formats to_formats(const nb::dict& group);

/// The keys of to_formats() that are set. If slots of the rule have formats of their own, `state` names those of all.
nb::dict from_formats(const jit::Formats& formats, const jit::Manifest& rule);

/// A rule's declarations, for classes, docstrings and state: plain dicts, lists, strings and numbers.
nb::dict describe(const jit::Manifest& rule);

/// Rule, options and formats of a spec, a JSON text: {"rule": ..., "options": {...}, "formats": {...}}.
nb::dict parse_spec(const std::string& text);

}  // namespace jitstep::python
