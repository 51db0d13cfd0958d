// The generator of the typed classes. It has no library, so this file includes its sources.
#include <gtest/gtest.h>

#define main main_of_generate_classes
#include "../../tools/generate_classes/main.cpp"
#undef main
#include "../../tools/generate_classes/rule.cpp"
#include "jit/manifest/manifest_reader.h"

namespace {

TEST(GenerateClasses, TwoFlagsMayHaveTheSameEnumeration) {
  const Manifest manifest = jitstep::jit::read_manifest(
      "namespace jitstep::rules::mine {\nenum class When { before, after };\nstruct Flags {\n"
      "  When decay = When::before;\n  When clip = When::after;\n};\n}\n",
      "rules/mine.cuh", Manifest::Kind::rule);
  jitstep::jit::TemplateStore store;
  const Catalog catalog(store);
  std::ostringstream out;
  write_enumerations(out, rule_of(manifest, catalog));
  const std::string declared = out.str();
  const std::size_t first = declared.find("enum class When { before, after };");
  EXPECT_NE(first, declared.npos);
  EXPECT_EQ(declared.find("enum class When", first + 1), declared.npos) << declared;
}

}  // namespace
