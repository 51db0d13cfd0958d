#include "subject.h"

#include <jit/base/private_files.h>
#include <jit/base/text.h>
#include <jitstep/jit/catalog.h>
#include <jitstep/jit/error.h>
#include <jitstep/jit/variant.h>

#include <charconv>
#include <limits>
#include <map>
#include <utility>

#include "../machine_records.h"

namespace jitstep::tool::inspect {
namespace {

using namespace jitstep::jit;

constexpr WorkSize kUsualSize = {.elements = 1 << 20};  // of a step whose choice is shown

KernelSpec spec_of(const Request& request, const OptionValues& options) {
  const Formats formats = formats_of(request.kernel);
  check_formats(formats, options);
  const std::string& asked = request.kernel.parameter;
  const ParameterKind parameter{
      .dtype = asked.empty() ? usual_dtype(formats, options.rule()) : parse_dtype(asked),
      .dims = request.dims,
      .elements = std::numeric_limits<std::int64_t>::max()};
  KernelSpec spec = resolve(options, formats, parameter).spec;
  if (!request.kernel.gradient.empty()) spec.gradient = parse_dtype(request.kernel.gradient);
  spec.strided = request.strided;
  if (request.scaled) spec.gradient_flags["scaled"] = true;
  return spec;
}

int number_of(const std::string& option, const std::string& name, const std::string& word) {
  int number = 0;
  const char* const end = word.data() + word.size();
  const auto [rest, failure] = std::from_chars(word.data(), end, number);
  if (failure == std::errc() && rest == end) return number;
  throw Error(text(option, ": \"", word, "\" is no number for ", name));
}

// The default with what is said in its place: "threads=128", or the first numbers in this order.
Variant variant_of(const Request& request, Variant variant) {
  const std::vector<std::string>& words = request.variant;
  const std::pair<const char*, int*> fields[] = {
      {"threads", &variant.threads}, {"lanes", &variant.lanes},    {"vector", &variant.vector},
      {"chunk", &variant.chunk},     {"width", &variant.width},    {"unroll", &variant.unroll},
      {"grain", &variant.grain},     {"workers", &variant.workers}};
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t sign = words[i].find('=');
    const std::string name = sign != words[i].npos ? words[i].substr(0, sign)
                             : words.size() == 4   ? fields[i].first
                                                   : "";
    bool known = false;
    for (const auto& [field, number] : fields) {
      if (name != field) continue;
      known = true;
      *number = number_of(request.variant_word, name,
                          sign == words[i].npos ? words[i] : words[i].substr(sign + 1));
    }
    if (!known)
      throw Error(text(
          request.variant_word, " \"", words[i],
          "\": give threads=, lanes=, vector=, chunk=, width=, unroll=, grain= or workers= with a "
          "number, or the first four numbers in this order"));
  }
  return variant;
}

// A weight format that is not for the parameters' dtype leaves them as they are.
std::string note_on(const Plan& plan, const Formats& asked) {
  const StateFormat& made = plan.spec.state;
  if (!asked.weights || *asked.weights == made.weights) return "";
  return text(*asked.weights, " is not for ", to_string(made.dtype), " parameters, which stay ",
              made.weights);
}

}  // namespace

std::shared_ptr<const Built> Subject::built() const {
  return default_engine().build(asked, unit.name, target);
}

Subject subject(const Request& request) {
  OptionValues options = option_values(request.kernel);
  const Plan plan = resolve(spec_of(request, options));
  const VariantChoice usual = chosen_variant(plan, request.target, kUsualSize);
  const Variant variant = variant_of(request, usual.variant);
  const Unit made = unit(plan, variant, request.target);
  const bool edited = !request.override_file.empty();
  const std::string asked = edited ? read_code_file(request.override_file) : made.text;
  for (const std::string& entry : made.entries)
    if (edited && asked.find(entry) == asked.npos)
      throw Error(text(request.override_file, " has no ", entry, ", which the kernel ", made.name,
                       " is called by; edit what --show flat prints of it"));
  return {.options = std::move(options),
          .plan = plan,
          .target = request.target,
          .variant = variant,
          .reason = request.variant.empty() ? usual.why : "asked for by " + request.variant_word,
          .unit = made,
          .asked = asked,
          .flat = default_engine().flat_text(asked, made.name),
          .edited = edited,
          .note = note_on(plan, formats_of(request.kernel))};
}

}  // namespace jitstep::tool::inspect
