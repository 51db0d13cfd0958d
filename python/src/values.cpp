#include "values.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "jit/codegen/spec_text.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/option_values.h"

namespace jitstep::python {
namespace {

using namespace nb::literals;
using Type = jit::Option::Type;

// torch warns if a tensor that requires a gradient becomes a number.
nb::object detached(nb::handle object) {
  const bool is_number = PyFloat_Check(object.ptr()) || PyLong_Check(object.ptr());
  return !is_number && nb::hasattr(object, "detach") ? object.attr("detach")() : nb::borrow(object);
}

double to_number(nb::handle object) {
  const double x = PyFloat_AsDouble(detached(object).ptr());
  if (x == -1.0 && PyErr_Occurred()) throw nb::python_error();
  return x;
}

jit::Value to_numbers(nb::handle object) {
  jit::Value::Numbers numbers;
  for (nb::handle one : nb::iter(object))
    numbers.push_back(one.is_none() ? std::numeric_limits<double>::quiet_NaN() : to_number(one));
  return numbers;
}

nb::object from_number(double x) {
  if (std::isnan(x)) return nb::none();
  return nb::float_(x);
}

const char* name_of(Type type) {
  constexpr const char* kNames[] = {"number", "nullable", "numbers", "list", "boolean", "choice"};
  return kNames[static_cast<int>(type)];
}

nb::dict describe_option(const jit::Option& option, bool common) {
  nb::dict one;
  one["name"] = option.name;
  one["type"] = name_of(option.type);
  one["default"] = from_value(option.initial);
  if (option.constraint.is_whole() && option.initial.is_number())
    one["default"] = static_cast<long long>(option.initial.number());
  one["range"] = option.is_flag() ? std::string() : to_string(option.constraint);
  one["choices"] = option.choices;
  one["note"] = option.note;
  one["at_construction"] = option.at_construction;
  one["common"] = common;
  return one;
}

nb::list describe_options(const jit::Manifest& rule) {
  nb::list options;
  const jit::OptionValues values(rule, jit::default_catalog().gradient());
  for (const std::string& name : values.names())
    options.append(describe_option(values.declaration(name), rule.find(name) == nullptr));
  return options;
}

// A value that is set in a group, or null.
nb::object entry(const nb::dict& group, const char* name) {
  PyObject* const found = PyDict_GetItemString(group.ptr(), name);
  return found == nullptr || found == Py_None ? nb::object() : nb::borrow(found);
}

nb::object from_codec(const jit::CodecChoice& codec) {
  return nb::module_::import_("json").attr("loads")(jit::to_json(codec));
}

// Numbers of numpy, for example, are no JSON.
nb::object plain_number(nb::handle value) {
  if (PyIndex_Check(value.ptr())) return nb::steal(PyNumber_Index(value.ptr()));
  return nb::float_(to_number(value));
}

nb::builtin_exception wrong_type(const jit::Option& option, const std::string& cause) {
  return nb::type_error(("the option " + option.name + ": " + cause + ".").c_str());
}

// A TypeError of Python does not name the option.
jit::Value convert(const jit::Option& option, nb::handle object) {
  if (object.is_none() && option.type != Type::boolean)  // torch's flags may be None
    return option.type == Type::choice ? option.initial : jit::Value();
  switch (option.type) {
    case Type::boolean: {
      if (nb::isinstance<nb::str>(object)) throw wrong_type(option, "must be True or False");
      const int truth = PyObject_IsTrue(object.ptr());
      if (truth < 0) throw nb::python_error();
      return truth == 1;
    }
    case Type::choice:
      if (!nb::isinstance<nb::str>(object)) throw wrong_type(option, "must be a string");
      return nb::cast<std::string>(object);
    case Type::number:
    case Type::nullable:
      return to_number(object);
    case Type::numbers:
    case Type::list:
      return to_numbers(object);
  }
  return {};
}

}  // namespace

jit::Value to_value(const jit::Option& option, nb::handle object) try {
  return convert(option, object);
} catch (const nb::python_error& error) {
  if (!error.matches(PyExc_TypeError)) throw;
  const nb::str cause(error.value());
  throw wrong_type(option, cause.c_str());
}

nb::object from_value(const jit::Value& value) {
  if (value.is_null()) return nb::none();
  if (value.is_bool()) return nb::bool_(value.boolean());
  if (value.is_number()) return from_number(value.number());
  if (value.is_choice()) return nb::cast(value.choice());
  nb::list numbers;
  for (const double x : value.numbers()) numbers.append(from_number(x));
  return nb::tuple(numbers);
}

namespace {

// JSON has no numbers that are not finite.
void check_finite(const char* name, const nb::object& value, const nb::object& default_number) try {
  nb::module_::import_("json").attr("dumps")(value, "default"_a = default_number,
                                             "allow_nan"_a = false);
} catch (const nb::python_error& error) {
  // A value that contains itself is another ValueError.
  if (!error.matches(PyExc_ValueError) ||
      std::string(error.what()).find("Out of range float") == std::string::npos)
    throw;
  const nb::str shown = nb::repr(value);
  throw jit::Error(std::string(name) + " is " + shown.c_str() + ". Use finite numbers.");
}

}  // namespace

jit::Formats to_formats(const nb::dict& group) {
  const nb::object default_number = nb::cpp_function(plain_number);
  nb::dict given;
  for (const char* name : {"state", "weights", "seed", "min_quantized_size"}) {
    const nb::object value = entry(group, name);
    if (!value.is_valid()) continue;
    check_finite(name, value, default_number);
    given[name] = value;
  }
  const nb::object text =
      nb::module_::import_("json").attr("dumps")(given, "default"_a = default_number);
  return jit::formats_from_json(nb::cast<std::string>(text));
}

nb::dict describe(const jit::Manifest& rule) {
  nb::dict d;
  d["name"] = rule.name;
  d["class"] = rule.class_name;
  d["description"] = rule.description;
  d["source"] = rule.path;
  nb::list transforms;
  for (const jit::RuleTransform& one : rule.transforms) transforms.append(one.host);
  d["transforms"] = transforms;
  d["modes"] = rule.modes;
  d["early_state"] = rule.early_state;
  d["no_step_number"] = rule.no_step_number;
  d["options"] = describe_options(rule);
  nb::list slots, shared;
  nb::dict slot_names,
      aux_names;  // torch's names by those in the rule's file, which archives of C++ have
  for (const jit::Slot& slot : rule.slots) {
    slots.append(slot.torch_name);
    slot_names[slot.name.c_str()] = slot.torch_name;
  }
  for (const jit::AuxField& field : rule.aux_state) {
    if (field.is_shared()) shared.append(field.torch_name);
    aux_names[field.name.c_str()] = field.torch_name;
  }
  nb::dict matrices;  // torch's names by those in the rule's file
  for (const jit::MatrixField& matrix : rule.matrices)
    matrices[matrix.name.c_str()] = aux_names[matrix.name.c_str()] = matrix.torch_name;
  d["matrices"] = matrices;
  nb::list inputs;
  for (const jit::RuleInput& input : rule.inputs) inputs.append(input.name);
  d["inputs"] = inputs;
  d["slots"] = slots;
  d["shared"] = shared;
  d["slot_names"] = slot_names;
  d["aux_names"] = aux_names;
  return d;
}

// The formats of all slots, because a group in Python has either one format or a dict of them.
nb::dict formats_of_slots(const jit::Formats& given, const jit::Manifest& rule) {
  nb::dict slots;
  for (const auto& [name, codec] : given.slots) slots[name.c_str()] = from_codec(codec);
  if (!given.state) return slots;
  for (const jit::Slot& slot : rule.slots) {
    const bool has_own = std::any_of(given.slots.begin(), given.slots.end(),
                                     [&](const auto& one) { return slot.is_named(one.first); });
    if (!has_own && slot.codec.empty()) slots[slot.torch_name.c_str()] = from_codec(*given.state);
  }
  return slots;
}

nb::dict from_formats(const jit::Formats& given, const jit::Manifest& rule) {
  nb::dict formats;
  if (!given.slots.empty())
    formats["state"] = formats_of_slots(given, rule);
  else if (given.state)
    formats["state"] = from_codec(*given.state);
  if (given.weights) formats["weights"] = *given.weights;
  if (given.seed) formats["seed"] = *given.seed;
  if (given.min_quantized_size) formats["min_quantized_size"] = *given.min_quantized_size;
  return formats;
}

nb::dict parse_spec(const std::string& text) {
  const jit::SpecText spec = jit::parse_spec(text);
  nb::dict out, options;
  for (const auto& [name, value] : spec.options) options[name.c_str()] = from_value(value);
  out["rule"] = spec.rule;
  out["options"] = options;
  out["formats"] = from_formats(spec.formats, jit::default_catalog().rule(spec.rule));
  return out;
}

}  // namespace jitstep::python
