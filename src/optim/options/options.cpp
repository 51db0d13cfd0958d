#include "jitstep/options.h"

#include <torch/serialize/archive.h>

#include <algorithm>
#include <atomic>

#include "jit/codegen/spec_text.h"
#include "optim/options/shipped_options.h"
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

// GenericOptions have no names and types of options before bind().
void check_bound(const Options& options) {
  TORCH_CHECK(
      !options.rule().empty(),
      "jitstep: the options cannot be read or written by index, put() or set_lr() yet: they ",
      "have no rule. Call set(name, value), or make_options(rule, options) first.");
}

}  // namespace

std::uint64_t Options::next_version() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

jit::CodecChoice Options::read_codec(const std::string& text) {
  return rethrow_as_torch_error([&] { return jit::parse_codec(text); });
}

jit::OptionValues Options::defaults() const { return jit::OptionValues(rule(), catalog()); }

std::size_t Options::index(const std::string& name) const {
  check_bound(*this);
  const auto& all = names();
  const auto found = std::find(all.begin(), all.end(), name);
  if (found != all.end()) return static_cast<std::size_t>(found - all.begin());
  rethrow_as_torch_error([&] { defaults().declaration(name); });
  TORCH_CHECK(false, "jitstep: ", rule(), " has no option \"", name, "\".");
}

void Options::put(const std::string& name, const jit::Value& value) {
  const std::size_t option = index(name);
  rethrow_as_torch_error([&] { defaults().set(name, value); });
  put(option, value);
}

bool Options::is_marked(std::size_t option) const {
  const std::vector<bool>& set = common().set;
  return option < set.size() && set[option];
}

void Options::set_mark(std::size_t option, bool on) {
  std::vector<bool>& set = common().set;
  if (option >= set.size()) set.resize(option + 1);
  set[option] = on;
}

bool Options::is_set(std::size_t option) const {
  return is_marked(option) || !(get(option) == defaults().get(names().at(option)));
}

jit::OptionValues Options::values() const {
  jit::OptionValues values = defaults();
  update(values);
  return values;
}

void Options::update(jit::OptionValues& values) const {
  for (std::size_t i = 0; i < names().size(); ++i) {
    jit::Value now = get(i);
    if (!(now == values.get(names()[i]))) values.set(names()[i], std::move(now));
  }
}

void Options::assign(const jit::OptionValues& values) {
  for (std::size_t i = 0; i < names().size(); ++i) put(i, values.get(names()[i]));
}

void Options::construct() {
  jit::OptionValues values = this->values();
  values.construct();
  for (std::size_t i = 0; i < names().size(); ++i)
    if (const jit::Value& value = values.get(names()[i]); !(value == get(i))) put(i, value);
}

void Options::inherit(const Options& defaults) {
  for (std::size_t i = 0; i < names().size(); ++i) {
    if (is_set(i)) continue;
    put(i, defaults.get(i));
    set_mark(i, false);
  }
  edit_formats().inherit(defaults.formats(), manifest());
}

jit::Formats& Options::edit_formats() {
  common().formats_version = next_version();
  return common().formats;
}

std::unique_ptr<Options> Options::copy() const {
  return std::unique_ptr<Options>(static_cast<Options*>(clone().release()));
}

bool Options::equals(const Options& other) const {
  if (rule() != other.rule() || !(formats() == other.formats())) return false;
  for (std::size_t i = 0; i < names().size(); ++i)
    if (!(get(i) == other.get(i))) return false;
  return true;
}

void Options::check_unharmed() const {
  TORCH_CHECK(guard() == nullptr || guard()->is_intact(), "jitstep: the options of ",
              rule().empty() ? "no rule yet" : rule(), " were overwritten through a wrong cast to ",
              "an options class of torch, such as static_cast<torch::optim::AdamOptions&>. Cast ",
              "them to jitstep's options class, or call set_lr() and put() of jitstep::Options.");
}

void Options::serialize(torch::serialize::OutputArchive& archive) const {
  check_unharmed();
  const jit::OptionValues declared = defaults();
  for (std::size_t i = 0; i < names().size(); ++i)
    archive.write(names()[i], to_ivalue(declared.declaration(names()[i]), get(i)));
  archive.write(kFormatsKey, c10::IValue(jit::to_json(formats())));
}

// Options that the archive lacks keep their values. torch's archives lack jitstep's additional options.
void Options::serialize(torch::serialize::InputArchive& archive) {
  const jit::OptionValues declared = defaults();
  c10::IValue value;
  for (std::size_t i = 0; i < names().size(); ++i) {
    if (archive.try_read(names()[i], value))
      put(names()[i], archived(declared.declaration(names()[i]), value));
  }
  if (!archive.try_read(kFormatsKey, value)) return;
  TORCH_CHECK(value.isString(), "jitstep: the checkpoint is damaged: its entry \"", kFormatsKey,
              "\" is ", value.tagKind(), " instead of a string. Save the optimizer again.");
  edit_formats() =
      rethrow_as_torch_error([&] { return jit::formats_from_json(value.toStringRef()); });
}

double Options::get_lr() const {
  check_unharmed();
  return get("lr").number();
}

void Options::set_lr(double lr) {
  check_unharmed();
  put(index("lr"), lr);
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): a Value is small, and the signature is public.
GenericOptions& GenericOptions::set(const std::string& name, jit::Value value) {
  given_[name] = value;
  if (!rule().empty()) Options::put(name, value);
  return *this;
}

void GenericOptions::bind(const std::string& rule, const jit::Catalog& catalog) {
  jit::OptionValues values(rule, catalog);
  set_catalog(values.catalog());
  for (const auto& [name, value] : given_) values.set(name, value);
  names_ = values.names();
  values_ = std::move(values);
  rename(rule);
  for (std::size_t i = 0; i < names_.size(); ++i)
    if (given_.count(names_[i]) != 0) mark(i);
}

jit::Value GenericOptions::get(std::size_t option) const {
  check_bound(*this);
  return values_->get(names_.at(option));
}

void GenericOptions::put(std::size_t option, const jit::Value& value) {
  check_bound(*this);
  values_->set(names_.at(option), value);
  version_ = next_version();
  mark(option);
}

void GenericOptions::snapshot(std::vector<double>& numbers) const {
  numbers = {formats_version(), static_cast<double>(version_)};
}

bool is_shipped(const std::string& rule) {
  const auto shipped = make_shipped_options(rule);
  return shipped && shipped->names() == jit::OptionValues(rule).names();
}

std::unique_ptr<Options> make_options(const std::string& rule, const jit::Catalog& catalog) {
  if (is_shipped(rule)) return make_shipped_options(rule);
  auto generic = std::make_unique<GenericOptions>();
  generic->bind(rule, catalog);
  return generic;
}

std::unique_ptr<Options> make_options(const std::string& rule, const GenericOptions& given,
                                      const jit::Catalog& catalog) {
  auto options = make_options(rule, catalog);
  jit::OptionValues values = options->values();
  for (const auto& [name, value] : given.given()) {
    values.set(name, value);
    options->put(name, value);
  }
  options->edit_formats() = given.formats();
  return options;
}

}  // namespace jitstep
