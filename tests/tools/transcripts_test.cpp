// The output of each subcommand, as files in transcripts/: `$ jitstep ...`, the output, and `[exit N]` if N is not 0.
//
// JITSTEP_WRITE_TRANSCRIPTS=1 rewrites the files. Read the difference before you commit it.
#include <nlohmann/json.hpp>
#include <regex>

#include "jit/base/process.h"
#include "jit/cache/cache_fixtures.h"
#include "tools/tool.h"

namespace jitstep::jit {
namespace {

using testing::content_of;
using testing::TemporaryFolder;
using testing::fs::path;

const path kFolder = JITSTEP_SOURCE_DIR "/tests/tools/transcripts";

std::string replaced(const std::string& text, const char* pattern, const char* by) {
  return std::regex_replace(text, std::regex(pattern, std::regex::multiline), by);
}

// Removes the measurements, which follow a workload's name.
std::string without_measures(const std::string& text) {
  static const std::regex kWorkload("^(.* elements) (.*)$");
  std::istringstream lines(text);
  std::string out;
  for (std::string line; std::getline(lines, line); out += line + "\n") {
    std::smatch parts;
    if (!std::regex_match(line, parts, kWorkload)) continue;
    std::string numbers = replaced(parts[2].str(), "\\d+(\\.\\d+)?( %)?", "N");
    line = parts[1].str() + " " +
           replaced(numbers, "(won: .*?|unresolved|default)( \\(known before\\))?$", "OUTCOME$2");
  }
  return out;
}

// Masks everything that differs between machines or days. Column widths depend on the masked text, so runs of spaces
// become two.
std::string masked(std::string text, const std::string& folder) {
  for (std::size_t at; (at = text.find(folder)) != text.npos;)
    text.replace(at, folder.size(), "FOLDER");
  text = without_measures(std::move(text));
  text = replaced(text, "[0-9a-f]{64}", "KEY");
  text = replaced(text, "\\b[0-9a-f]{12}\\b", "DIGEST");
  text = replaced(text, "\\d{4}-\\d\\d-\\d\\d[T ]\\d\\d:\\d\\d(:\\d\\dZ)?", "DATE");
  text = replaced(text, "\\b\\d+ (ms|bytes)\\b", "N $1");
  text = replaced(text, "\"(compile_ms|bytes)\": [\\d.e+-]+", "\"$1\": N");
  text = replaced(text, "^(DIGEST) +\\d+", "$1  N");                       // sizes in `cache list`
  text = replaced(text, "^((jitstep_\\w+|not inlined)) .*\\d$", "$1  N");  // results of a compiler
  text = replaced(text, "^((signum|yogi)_\\w+ .*kept.*?)( +\\d+)+ +(m .*)$", "$1  N  $4");
  text = replaced(text, "(gcc|clang|Debian|Ubuntu) ?version .*", "COMPILER");
  text = replaced(text, "^( *)(compiler +.*|Target|isa|arrived|options): .*", "$1$2: WORDS");
  text = replaced(text, "^(sm_\\d+ .*\n)+", "GPUS\n");
  text = replaced(text, "^(ok|missing) +(compiler|cache) .*", "$1  $2  WORDS");
  text = replaced(text, "^((ok|note|missing) +(NVRTC|driver|GPU|nvdisasm) .*\n)+", "FOR GPUS\n");
  text = replaced(text, "\\d+ rules, codecs and", "N rules, codecs and");
  text = replaced(text, "^.*(, \\d+ threads?, \\d+ rounds?)$", "PROCESSOR$1");
  return replaced(text, " {2,}", "  ");
}

std::vector<std::string> commands_of(const std::string& transcript) {
  std::vector<std::string> commands;
  std::istringstream lines(transcript);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("$ ")) commands.push_back(line.substr(2));
  return commands;
}

// Runs the commands one after the other in a folder with the examples, and with a cache that starts empty.
std::string run_all(const std::vector<std::string>& commands) {
  TemporaryFolder folder;
  for (const char* file : {"signum.cuh", "linear8.cuh", "yogi.cuh"})
    testing::write_file(folder / file,
                        content_of(std::string(JITSTEP_SOURCE_DIR "/examples/") + file));
  testing::write_file(folder / "broken.cuh", "constexpr int kNothing = 1;\n");
  testing::write_file(folder / "specs.jsonl",
                      "{\"rule\": \"lion\"}\n\n{\"rule\": \"sgd\", \"param\": \"bfloat16\"}\n");
  testing::write_file(folder / "bad.jsonl", "{\"rule\": \"lion\"}\n{\"rule\"\n");
  const Variables environment = {{"JITSTEP_CACHE_DIR", folder / "cache"},
                                 {"JITSTEP_CACHE_READONLY", ""},
                                 {"JITSTEP_TEMPLATES", ""},
                                 {"JITSTEP_LOG", ""},
                                 {"JITSTEP_CXX", ""},
                                 {"COLUMNS", ""}};
  std::string out;
  for (const std::string& command : commands) {
    const std::string line = "cd " + folder.path() + "\njitstep() { " JITSTEP_TOOL " \"$@\"; }\n";
    const Finished run =
        run_program({"/bin/sh", "-c", line + command}, "", own_variables(environment));
    out += "$ " + command + "\n" + run.output;
    if (run.status != 0) out += str_cat("[exit ", run.status, "]\n");
    out += "\n";
  }
  return masked(out, folder.path());
}

class Transcripts : public ::testing::TestWithParam<std::string> {};

TEST_P(Transcripts, EqualsTheToolsOutput) {
  const std::string file = (kFolder / GetParam()).string();
  const std::string expected = content_of(file);
  const std::string printed = run_all(commands_of(expected));
  if (std::getenv("JITSTEP_WRITE_TRANSCRIPTS") != nullptr) std::ofstream(file) << printed;
  EXPECT_EQ(content_of(file), printed) << "set JITSTEP_WRITE_TRANSCRIPTS=1 to update transcripts";
}

std::vector<std::string> files() {
  std::vector<std::string> names;
  for (const auto& file : testing::fs::directory_iterator(kFolder))
    names.push_back(file.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Tool, Transcripts, ::testing::ValuesIn(files()), [](const auto& test) {
  return test.param.substr(0, test.param.find('.'));
});

TEST(TranscriptsTogether, ContainEveryCommand) {
  std::string all;
  for (const std::string& name : files()) all += content_of(kFolder / name);
  const std::string help = testing::run_tool({"--help"}).output;
  const std::size_t begin = help.find("Explore:");
  std::istringstream lines(help.substr(begin, help.find("Exit status:") - begin));
  int found = 0;
  for (std::string line; std::getline(lines, line);) {
    std::smatch word;
    static const std::regex kName("^  (\\w+)[ ,]");
    if (!std::regex_search(line, word, kName)) continue;
    ++found;
    EXPECT_NE(all.find("$ jitstep " + word[1].str() + " --help\n"), all.npos) << word[1];
  }
  EXPECT_GE(found, 12);
}

// The numbers of two machines differ, and therefore the spaces of columns.
std::string without_numbers(const std::string& text) {
  return replaced(replaced(masked(text, "/nowhere"), "\\d+(\\.\\d+)?", "N"), " +", " ");
}

// The code blocks of a page that run the tool, without the fences.
std::vector<std::string> blocks_of(const std::string& page) {
  std::vector<std::string> blocks;
  std::istringstream lines(page);
  std::string block;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("```")) {
      if (inside) block += line + "\n";
      continue;
    }
    if (inside && block.find("$ jitstep ") == 0) blocks.push_back(block);
    inside = !inside;
    block.clear();
  }
  return blocks;
}

// A page may omit the end of the output, after a line "...".
TEST(TranscriptsTogether, ContainEveryBlockOfTheDocumentation) {
  std::string all;
  for (const std::string& name : files()) all += content_of(kFolder / name);
  all = without_numbers(all);
  std::vector<path> pages = {JITSTEP_SOURCE_DIR "/README.md"};
  for (const auto& file : testing::fs::recursive_directory_iterator(JITSTEP_SOURCE_DIR "/docs"))
    if (file.path().extension() == ".md") pages.push_back(file.path());
  int found = 0;
  for (const path& page : pages)
    for (const std::string& block : blocks_of(content_of(page))) {
      ++found;
      const std::string shown = block.substr(0, block.find("\n...\n") + 1);
      EXPECT_NE(all.find(without_numbers(shown)), all.npos) << page << "\n" << shown;
    }
  EXPECT_GE(found, 2);
}

}  // namespace
}  // namespace jitstep::jit
