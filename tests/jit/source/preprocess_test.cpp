#include "jit/source/preprocess.h"

#include "jit/fixtures.h"
#include "jit/source/template_data.h"

namespace jitstep::jit {
namespace {

using testing::error_of;

TEST(Preprocess, ExpandsAnIncludeInPlaceWithLineMarkers) {
  TemplateStore store("", false);
  store.add("rules/a.cuh", "#pragma once\nint a;\n");
  EXPECT_EQ(
      preprocess("int x;\n#include \"rules/a.cuh\"\nint y;\n", "unit", store),
      "#line 1 \"unit\"\nint x;\n#line 1 \"rules/a.cuh\"\n\nint a;\n#line 3 \"unit\"\nint y;\n");
}

TEST(Preprocess, LooksUpANameNextToItsIncluderAndThenFromTheRoot) {
  TemplateStore store("", false);
  store.add("core/port.cuh", "int port;\n");
  store.add("rules/near.cuh", "int near_one;\n");
  store.add("near.cuh", "int far_one;\n");
  store.add("rules/a.cuh", "#include \"near.cuh\"\n#include \"../core/port.cuh\"\n");
  store.add("rules/b.cuh", " #  include\t\"core/port.cuh\" // again\nint b;\n");
  const std::string preprocessed =
      preprocess("#include \"rules/a.cuh\"\n#include \"rules/b.cuh\"\n", "u", store);
  EXPECT_NE(preprocessed.find("near_one"), std::string::npos);
  EXPECT_EQ(preprocessed.find("far_one"), std::string::npos);
  EXPECT_EQ(preprocessed.find("int port"), preprocessed.rfind("int port"))
      << "each file is expanded once";
}

TEST(Preprocess, AngleBracketsAndOtherDirectivesStay) {
  TemplateStore store("", false);
  const std::string unit = "#include <cstdint>\n#pragma unroll\n#define A 1";
  EXPECT_EQ(preprocess(unit, "u", store), "#line 1 \"u\"\n" + unit + "\n");
}

TEST(Preprocess, DirectivesInABlockCommentDoNotCount) {
  TemplateStore store("", false);
  store.add("a.cuh", "int a;\n");
  const std::string comment = "/*\n#include \"a.cuh\"\n#include \"gone.cuh\"\n#if 0\n*/\n";
  EXPECT_EQ(preprocess(comment + "#include \"a.cuh\"  /* now */\n", "u", store),
            "#line 1 \"u\"\n" + comment + "#line 1 \"a.cuh\"\nint a;\n#line 7 \"u\"\n");
  for (const std::string before : {"f(\"/*\");\n", "// see lang/*\n"}) {
    const std::string made = preprocess(before + "#include \"a.cuh\"\n", "u", store);
    EXPECT_NE(made.find("int a"), made.npos) << made;
  }
}

TEST(Preprocess, AnIncludeInsideIfIsAnErrorWithFileAndLine) {
  TemplateStore store("", false);
  store.add("a.cuh", "int a;\n");
  store.add("b.cuh", "#if 0\nint b;\n#else\n#include \"a.cuh\"\n#endif\n");
  for (const auto& [unit, part] : std::initializer_list<std::pair<const char*, const char*>>{
           {"#include \"b.cuh\"\n", "b.cuh:4: the include \"a.cuh\" is inside #if"},
           {"# ifdef A\n#ifndef B\n#endif // B\n#include \"a.cuh\"\n#endif\n", "u:4: "}}) {
    const std::string message = error_of([&, &unit = unit] { preprocess(unit, "u", store); });
    EXPECT_NE(message.find(part), message.npos) << message;
  }
  const std::string after = preprocess("#if 0\n#endif\n#include \"a.cuh\"\n", "u", store);
  EXPECT_NE(after.find("int a"), after.npos) << after;
  EXPECT_NO_THROW(preprocess("#if 0\n#include <cmath>\n#endif\n", "u", store));
}

TEST(Preprocess, AMissingFileIsAnErrorWithFileAndLine) {
  TemplateStore store("", false);
  store.add("rules/a.cuh", "\n\n#include \"../codecs/none.cuh\"\n");
  const std::string message =
      error_of([&] { preprocess("#include \"rules/a.cuh\"\n", "u", store); });
  EXPECT_NE(message.find("rules/a.cuh:3:"), std::string::npos) << message;
  EXPECT_NE(message.find("codecs/none.cuh"), std::string::npos) << message;
}

TEST(Preprocess, ACycleIsAnErrorThatShowsTheChain) {
  TemplateStore store("", false);
  store.add("a.cuh", "#include \"b.cuh\"\n");
  store.add("b.cuh", "int b;\n#include \"a.cuh\"\n");
  const std::string message = error_of([&] { preprocess("#include \"a.cuh\"\n", "u", store); });
  EXPECT_NE(message.find("b.cuh:2:"), std::string::npos) << message;
  EXPECT_NE(message.find("u -> a.cuh -> b.cuh -> a.cuh"), std::string::npos) << message;
}

TEST(Preprocess, AUnitNameCannotBreakTheMarkers) {
  TemplateStore store("", false);
  EXPECT_EQ(preprocess("", "a\"b\\c\nd", store), "#line 1 \"a_b_c_d\"\n");
}

TEST(TemplateStore, UpperLayersHideLowerOnes) {
  testing::TemporaryFolder folder;
  testing::write_file(folder / "rules/a.cuh", "from the folder");
  testing::write_file(folder / "rules/b.cuh", "from the folder");
  TemplateStore store(folder.path(), false);
  const std::uint64_t before = store.version();
  store.add("rules/a.cuh", "added");
  store.add("codecs/c.cuh", "added");
  EXPECT_GT(store.version(), before);
  EXPECT_EQ(store.find("rules/a.cuh"), "added");
  EXPECT_EQ(store.find("rules/b.cuh"), "from the folder");
  EXPECT_EQ(store.find("rules/none.cuh"), std::nullopt);
  EXPECT_EQ(store.origin("rules/a.cuh"), "added at run time");
  EXPECT_EQ(store.origin("rules/b.cuh"), folder / "rules/b.cuh");
  EXPECT_EQ(store.list("rules/"), (std::vector<std::string>{"rules/a.cuh", "rules/b.cuh"}));
}

TEST(Preprocess, IncludesOfAnOlderRevisionAreThoseAtItsLoading) {
  TemplateStore store("", false);
  const std::string rule = "#include \"../core/near.cuh\"\nint rule;\n";
  const auto keep = [&](const std::string& near) {
    store.add("core/near.cuh", near);
    return store.data().add_loaded(
        "rules/a.cuh", {"/my/a.cuh", rule, newest_includes(rule, "rules/a.cuh", store)});
  };
  EXPECT_EQ(keep("int one;\n"), "rules/a.cuh");
  EXPECT_EQ(keep("int two;\n"), "rules/a.cuh@2");
  EXPECT_EQ(keep("int one;\n"), "rules/a.cuh") << "as it was first";
  store.add("core/near.cuh", "int three;\n");
  const std::string marked =
      "#line 1 \"u\"\n#line 1 \"rules/a.cuh\"\n#line 1 \"core/near.cuh\"\nint ";
  const std::string rest = ";\n#line 2 \"rules/a.cuh\"\nint rule;\n#line 2 \"u\"\n";
  Texts included;
  EXPECT_EQ(preprocess("#include \"rules/a.cuh\"\n", "u", store, included), marked + "one" + rest);
  EXPECT_EQ(preprocess("#include \"rules/a.cuh@2\"\n", "u", store, included),
            marked + "two" + rest);
  EXPECT_EQ(included, (Texts{{"rules/a.cuh", rule}, {"core/near.cuh", "int two;\n"}}));
}

TEST(TemplateStore, StoresOneFileUnderOneName) {
  TemplateStore store("", false);
  store.add("rules/taken.cuh", "int a;\n");
  EXPECT_EQ(store.data().add_loaded("rules/taken.cuh", {"/my/taken.cuh", "int b;\n", {}}),
            std::nullopt);
  EXPECT_EQ(store.data().add_loaded("rules/taken.cuh", {"/my/taken.cuh", "int a;\n", {}}),
            "rules/taken.cuh");
  EXPECT_EQ(store.data().loaded("rules/taken.cuh"), nullptr) << "there is nothing to load";
  EXPECT_EQ(store.data().add_loaded("rules/a.cuh", {"/my/a.cuh", "int a;\n", {}}), "rules/a.cuh");
  EXPECT_EQ(store.data().add_loaded("rules/a.cuh", {"/my/a.cuh", "int b;\n", {}}), "rules/a.cuh@2");
  EXPECT_EQ(store.data().add_loaded("rules/a.cuh", {"/your/a.cuh", "int c;\n", {}}), std::nullopt);
  EXPECT_EQ(store.data().add_loaded("rules/a.cuh", {"/your/a.cuh", "int b;\n", {}}),
            "rules/a.cuh@2");
  EXPECT_EQ(store.data().shown_name("rules/a.cuh@2"), "/my/a.cuh");
  EXPECT_EQ(store.list("rules/"), (std::vector<std::string>{"rules/a.cuh", "rules/taken.cuh"}));
}

TEST(TemplateStore, RejectsAFileThatOthersMayWriteTo) {
  testing::TemporaryFolder folder;
  testing::write_file(folder / "rules/a.cuh", "int a;\n");
  testing::fs::permissions(folder / "rules/a.cuh", testing::fs::perms::others_write,
                           testing::fs::perm_options::add);
  const TemplateStore store(folder.path(), false);
  EXPECT_NE(error_of([&] { store.find("rules/a.cuh"); }).find("chmod go-w"), std::string::npos);
}

}  // namespace
}  // namespace jitstep::jit
