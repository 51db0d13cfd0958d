#include "tuning/plot.h"

#include "jit/fixtures.h"
#include "jitstep/jit/error.h"

namespace jitstep::tuning {
namespace {

using jit::testing::TemporaryFolder;

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

Plot one_row(PlotRow row) {
  return {.low = 0, .high = 2, .ticks = {{1, "100 %"}}, .lines = {{1, "limit"}}, .rows = {row}};
}

TEST(Plot, PlacesADotAndItsLineOnTheAxis) {
  const std::string svg =
      to_svg(one_row({.label = "a", .value = 1, .low = 0.5, .high = 2, .title = "b"}));
  EXPECT_TRUE(has(svg, "cx=\"580.0\"")) << "the middle of 300 to 860\n" << svg;
  EXPECT_TRUE(has(svg, "x1=\"440.0\" y1=\"15\" x2=\"860.0\"")) << svg;
  EXPECT_TRUE(has(svg, "<line class=\"limit\" x1=\"580.0\"")) << svg;
  EXPECT_TRUE(has(svg, "<title>b</title>") && has(svg, ">100 %</text>")) << svg;
}

TEST(Plot, ClampsValuesOutsideTheAxisAndReplacesADotByText) {
  EXPECT_TRUE(
      has(to_svg(one_row({.label = "a", .value = 9, .low = 9, .high = 9})), "cx=\"860.0\""));
  const std::string failed = to_svg(one_row({.label = "a", .instead = "no <room>"}));
  EXPECT_TRUE(has(failed, "no &lt;room&gt;")) << failed;
  EXPECT_FALSE(has(failed, "<circle"));
}

TEST(Plot, APageIsWrittenOrAnErrorIsThrown) {
  const TemporaryFolder folder;
  EXPECT_NO_THROW(check_page_path(folder / "out.html"));
  EXPECT_FALSE(jit::testing::fs::exists(folder / "out.html")) << "the check must not leave a file";
  for (const std::string& path : {folder / "none/out.html", folder.path()})
    EXPECT_THROW(check_page_path(path), jit::Error) << path;
  write_page(folder / "out.html", html_page("a & b", "", "<p>"));
  std::ifstream file(folder / "out.html");
  const std::string page(std::istreambuf_iterator<char>(file), {});
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>") && has(page, "<h1>a &amp; b</h1>")) << page;
  EXPECT_THROW(write_page("/dev/full", page), jit::Error);
}

}  // namespace
}  // namespace jitstep::tuning
