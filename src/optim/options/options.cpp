#include "jitstep/options.h"

#include <torch/serialize/archive.h>

#include <algorithm>
#include <optional>

#include "jit/codegen/spec_text.h"
#include "jit/manifest/option_layout.h"
#include "optim/options/shipped_rules.h"
#include "optim/tensor/errors.h"

namespace jitstep {
namespace {

constexpr const char* kFormatsKey = "jitstep_formats";

c10::IValue tuple_of(const jit::Value::Numbers& numbers) {
  std::vector<c10::IValue> parts(numbers.begin(), numbers.end());
  return c10::ivalue::Tuple::create(std::move(parts));
}

// The types that torch writes: double, tuple of doubles, bool. A choice is a string, a list a list of doubles.
c10::IValue to_ivalue(const jit::Option& option, const jit::Value& value) {
  switch (option.type) {
    case jit::Option::Type::number:
      return value.number();
    case jit::Option::Type::nullable:  // null is NaN, because torch's archives have no empty value
      return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.number();
    case jit::Option::Type::numbers:
      return tuple_of(value.numbers());
    case jit::Option::Type::list:
      return value.numbers();
    case jit::Option::Type::boolean:
      return value.boolean();
    case jit::Option::Type::choice:
      return value.choice();
  }
  return {};
}

jit::Value from_ivalue(const jit::Option& option, const c10::IValue& value) {
  switch (option.type) {
    case jit::Option::Type::number:
      return value.toDouble();
    case jit::Option::Type::nullable:
      return std::isnan(value.toDouble()) ? jit::Value() : jit::Value(value.toDouble());
    case jit::Option::Type::numbers: {
      jit::Value::Numbers numbers;
      for (const auto& part : value.toTupleRef().elements()) numbers.push_back(part.toDouble());
      return numbers;
    }
    case jit::Option::Type::list:
      return value.toDoubleVector();
    case jit::Option::Type::boolean:
      return value.toBool();
    case jit::Option::Type::choice:
      return value.toStringRef();
  }
  return {};
}

// torch reports a value of another type as an internal error. This reports the option instead.
jit::Value archived(const jit::Option& option, const c10::IValue& value) {
  try {
    return from_ivalue(option, value);
  } catch (const c10::Error&) {
    TORCH_CHECK(false, "jitstep: the checkpoint is damaged: its option \"", option.name,
                "\" has the type ", value.tagKind(), ". Save the optimizer again.");
  }
}

// None in archives of torch.
std::optional<jit::Formats> archived_formats(torch::serialize::InputArchive& archive) {
  c10::IValue value;
  if (!archive.try_read(kFormatsKey, value)) return {};
  TORCH_CHECK(value.isString(), "jitstep: the checkpoint is damaged: its entry \"", kFormatsKey,
              "\" is ", value.tagKind(), " instead of a string. Save the optimizer again.");
  return as_torch_error([&] { return jit::formats_from_json(value.toStringRef()); });
}

// The index of an option that exists.
std::size_t index_of(const jit::OptionLayout& layout, const std::string& name) {
  return static_cast<std::size_t>(layout.find(name) - layout.options.data());
}

// GenericOptions have no types of options before bind().
void check_bound(const Options& options) {
  TORCH_CHECK(
      !options.rule().empty(),
      "jitstep: the options cannot be read or written by get(), put() or set_lr() yet: they ",
      "have no rule. Call set(name, value), or make_options(rule, options) first.");
}

// The options that were set. put() may have changed bound ones since set().
jit::NamedValues set_in(const GenericOptions& given) {
  if (given.rule().empty()) return given.given();
  jit::NamedValues values;
  for (const std::string& name : given.names())
    if (given.is_set(name)) values[name] = given.get(name);
  return values;
}

}  // namespace

jit::CodecChoice Options::read_codec(const std::string& text) {
  return as_torch_error([&] { return jit::parse_codec(text); });
}

std::vector<std::string> Options::names() const {
  return rule().empty() ? std::vector<std::string>() : defaults().names();
}

jit::Value Options::get(const std::string& name) const {
  check_bound(*this);
  return as_torch_error([&] { return values().get(name); });
}

void Options::put(const std::string& name, const jit::Value& value) {
  check_bound(*this);
  as_torch_error([&] {
    jit::OptionValues all = values();
    all.set(name, value);
    unpack(all.packed());
    mark(index_of(all.layout(), name));
  });
}

bool Options::is_marked(std::size_t option) const {
  const std::vector<bool>& set = common().set;
  return option < set.size() && set[option];
}

void Options::mark(std::size_t option) {
  std::vector<bool>& set = common().set;
  if (option >= set.size()) set.resize(option + 1);
  set[option] = true;
}

bool Options::is_set(const std::string& name) const {
  check_bound(*this);
  return as_torch_error([&] {
    const jit::OptionValues all = values();
    return !(all.get(name) == all.declaration(name).initial) ||
           is_marked(index_of(all.layout(), name));
  });
}

jit::OptionValues Options::values() const {
  jit::OptionValues values = defaults();
  if (layout() != nullptr && values.layout().text() != layout())
    throw jit::Error("the options class of " + rule() + " does not fit the file " +
                     manifest().path + ", which declares other options. Use GenericOptions.");
  jit::PackedValues packed = values.packed();
  pack(packed);
  values.set_packed(packed);
  return values;
}

void Options::assign(const jit::OptionValues& values) {
  unpack(values.packed());
  for (std::size_t i = 0; i < values.layout().options.size(); ++i) mark(i);
}

void Options::construct() {
  const jit::OptionValues before = values();
  jit::OptionValues after = before;
  after.construct();
  if (after == before) return;
  unpack(after.packed());
  const auto& options = after.layout().options;
  for (std::size_t i = 0; i < options.size(); ++i)
    if (!(options[i].value(after.packed()) == options[i].value(before.packed()))) mark(i);
}

void Options::inherit(const Options& defaults) {
  const jit::OptionValues own = values(), others = defaults.values();
  jit::PackedValues packed = own.packed();
  const auto& options = own.layout().options;
  for (std::size_t i = 0; i < options.size(); ++i)
    if (!is_marked(i) && options[i].value(packed) == options[i].option->initial)
      options[i].set(packed, options[i].value(others.packed()));
  unpack(packed);
  edit_formats().inherit(defaults.formats(), own.rule());
}

jit::Formats& Options::edit_formats() { return common().formats; }

std::unique_ptr<Options> Options::copy() const {
  return std::unique_ptr<Options>(static_cast<Options*>(clone().release()));
}

bool Options::equals(const Options& other) const {
  return rule() == other.rule() && formats() == other.formats() &&
         (rule().empty() || values() == other.values());
}

void Options::check_intact() const {
  TORCH_CHECK(guard() == nullptr || guard()->is_intact(), "jitstep: the options of ",
              rule().empty() ? "a group" : rule(), " were overwritten through a wrong cast to ",
              "an options class of torch, such as static_cast<torch::optim::AdamOptions&>. Cast ",
              "them to jitstep's options class, or call set_lr() and put() of jitstep::Options.");
}

void Options::serialize(torch::serialize::OutputArchive& archive) const {
  check_intact();
  const jit::OptionValues all = values();
  for (const jit::PackedOption& one : all.layout().options)
    archive.write(one.option->name, to_ivalue(*one.option, one.value(all.packed())));
  archive.write(kFormatsKey, c10::IValue(jit::to_json(formats())));
}

// Options that the archive lacks keep their values. torch's archives lack jitstep's additional options.
void Options::serialize(torch::serialize::InputArchive& archive) {
  jit::OptionValues all = values();
  c10::IValue value;
  const auto& options = all.layout().options;
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < options.size(); ++i) {
    const jit::Option& option = *options[i].option;
    if (!archive.try_read(option.name, value)) continue;
    const jit::Value converted = archived(option, value);
    as_torch_error([&] { all.set(option.name, converted); });
    found.push_back(i);
  }
  const std::optional<jit::Formats> formats = archived_formats(archive);
  unpack(all.packed());
  for (const std::size_t i : found) mark(i);
  if (formats) edit_formats() = *formats;
}

double Options::get_lr() const {
  check_intact();
  const jit::Value lr = get("lr");
  TORCH_CHECK(lr.is_number(), "jitstep: the option lr of the rule ", rule(), " is ",
              lr.is_null() ? "not set" : "no number", ". Call set_lr() first.");
  return lr.number();
}

void Options::set_lr(double lr) {
  check_intact();
  put("lr", lr);
}

GenericOptions& GenericOptions::set(const std::string& name, const jit::Value& value) {
  if (!rule().empty()) put(name, value);
  given_[name] = value;
  return *this;
}

void GenericOptions::bind(const std::string& rule, const jit::Catalog& catalog) {
  jit::OptionValues values(rule, catalog);
  for (const auto& [name, value] : given_) values.set(name, value);
  set_catalog(values.catalog());
  rename(rule);
  for (const auto& [name, value] : given_) mark(index_of(values.layout(), name));
  values_ = std::move(values);
}

const ShippedRule* shipped_rule(const std::string& rule, const jit::Catalog& catalog) {
  const ShippedRule* const found = find_shipped(rule);
  return found != nullptr && catalog.option_layout(rule)->text() == found->layout ? found : nullptr;
}

std::unique_ptr<Options> make_options(const std::string& rule, const jit::Catalog& catalog) {
  if (const ShippedRule* const shipped = shipped_rule(rule, catalog))
    return shipped->make_options();
  auto generic = std::make_unique<GenericOptions>();
  generic->bind(rule, catalog);
  return generic;
}

std::unique_ptr<Options> make_options(const std::string& rule, const GenericOptions& given,
                                      const jit::Catalog& catalog) {
  auto options = make_options(rule, catalog);
  for (const auto& [name, value] : set_in(given)) options->put(name, value);
  options->edit_formats() = given.formats();
  return options;
}

}  // namespace jitstep
