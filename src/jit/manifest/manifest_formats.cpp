#include "jit/manifest/manifest_formats.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jit/base/text.h"
#include "jit/manifest/manifest_fields.h"

namespace jitstep::jit {
namespace {

constexpr int kMostBlock = 65536;

// The first alias of a plain type. An alias that contains `::` refers to another declaration.
const SourceLine* alias(const SourceLines& lines, std::string_view name) {
  const auto found = lines.aliases.find(name);
  if (found == lines.aliases.end()) return nullptr;
  for (const SourceLine& line : found->second) {
    if (line.code.find("::") == line.code.npos) return &line;
  }
  return nullptr;
}

std::string alias_among(const SourceLines& lines, const Manifest& manifest, std::string_view name,
                        const std::vector<std::string_view>& types) {
  const SourceLine* const line = alias(lines, name);
  const std::string known = joined(types);
  if (line == nullptr)
    Location{manifest.path, 1}.fail(str_cat("expected `using ", name, " = ...;`, one of ", known));
  if (std::find(types.begin(), types.end(), line->code) == types.end())
    line->location.fail(str_cat("expected one of ", known, ", found `", line->code, "`"));
  return line->code;
}

bool is_random(const SourceLines& lines) {
  const auto found = lines.constants.find("random");
  return found != lines.constants.end() && found->second[0].code != "false";
}

void check_no_code(const SourceLines& lines) {
  const bool has_aux_state = lines.structs.contains("AuxState");
  if (!has_aux_state || lines.structs.contains("Meta"))
    alias(lines, "Code")
        ->location.fail(
            has_aux_state
                ? "a codec with NoCode has no blocks. Remove Meta."
                : "a codec with NoCode stores its data in `struct AuxState`. Declare it.");
}

void check_block(const SourceLines& lines, const Manifest& manifest) {
  const Option* const block = manifest.find("block");
  if (manifest.has_meta && block == nullptr)
    lines.structs.find("Meta")->second.location.fail(
        "a codec with Meta needs the option `int block`. Declare it in Options.");
  if (block != nullptr && (block->type != Option::Type::number || !block->constraint.power_of_two ||
                           !block->constraint.low || !block->constraint.high))
    Location{manifest.path, block->line}.fail(
        "expected `int block = N;  // power of two in [a, b]`");
  if (block != nullptr && *block->constraint.high > kMostBlock)
    Location{manifest.path, block->line}.fail(
        str_cat("a block has at most ", kMostBlock,
                " elements, because kernels keep one on the stack. Let its range end there."));
  if (manifest.has_meta && *block->constraint.low < 2)
    Location{manifest.path, block->line}.fail(
        "a block with Meta has at least 2 elements. Let the range of `block` begin at 2.");
}

// Receives a parameter's number of dimensions, clamped to the range.
void check_dims(const Manifest& manifest) {
  const Option* const dims = manifest.find("dims");
  if (dims != nullptr &&
      (dims->type != Option::Type::number || !dims->constraint.low || !dims->constraint.high))
    Location{manifest.path, dims->line}.fail("expected `int dims = N;  // in [a, b]`");
}

}  // namespace

void read_codec(const SourceLines& lines, Manifest& manifest) {
  manifest.code =
      alias_among(lines, manifest, "Code", {"uint8", "uint16", "real", "Nibble", "NoCode"});
  if (manifest.code == "NoCode") check_no_code(lines);
  const auto meta = lines.structs.find("Meta");
  manifest.has_meta = meta != lines.structs.end();
  if (manifest.has_meta) {
    for (const SourceLine& line : meta->second.fields)
      for (Field& field : read_fields(line, {"float", "double", "uint8", "uint16", "uint32"}))
        manifest.meta.push_back(std::move(field));
  }
  check_block(lines, manifest);
  check_dims(manifest);
  manifest.random = is_random(lines);
}

void read_weights(const SourceLines& lines, Manifest& manifest) {
  const std::string residual = alias_among(lines, manifest, "Residual",
                                           {"NoResidual", "float", "uint8", "uint16", "uint32"});
  if (residual != "NoResidual") manifest.residual = residual;
  manifest.random = is_random(lines);
}

}  // namespace jitstep::jit
