// Reads arbitrary text as a condition of a manifest. The reader must return a condition that can be evaluated, or
// throw.
#include <cmath>
#include <cstdint>
#include <string>

#include "jit/manifest/expression.h"
#include "jitstep/jit/error.h"

using namespace jitstep::jit;

namespace {

const Symbols kSymbols = {
    {"a", {Symbol::Type::number, 0, {}}},         {"n", {Symbol::Type::nullable, 0, {}}},
    {"b", {Symbol::Type::numbers, 2, {}}},        {"f", {Symbol::Type::boolean, 0, {}}},
    {"c", {Symbol::Type::choice, 0, {"x", "y"}}},
};

const NamedValues kValues = {
    {"a", 0.5}, {"n", Value()}, {"b", Value::Numbers{1, NAN}}, {"f", true}, {"c", "y"}};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    parse_expression({reinterpret_cast<const char*>(data), size}, kSymbols).holds(kValues);
  } catch (const Error&) {
  }
  return 0;
}
