// Behavior that all commands share: exit statuses, errors, suggestions, JSON, completion.
#include <nlohmann/json.hpp>
#include <regex>

#include "jit/base/process.h"
#include "jit/fixtures.h"

namespace jitstep::jit {
namespace {

using nlohmann::json;
using Args = std::vector<std::string>;

Finished run(const Args& args) {
  Args all = {JITSTEP_TOOL};
  all.insert(all.end(), args.begin(), args.end());
  return run_program(all, "", own_variables());
}

// Only standard error, or only standard output.
std::string stream_of(const Args& args, const char* dropped) {
  Args all = {"/bin/sh", "-c", str_cat("exec \"$0\" \"$@\" ", dropped), JITSTEP_TOOL};
  all.insert(all.end(), args.begin(), args.end());
  return run_program(all, "", own_variables()).output;
}

TEST(CommandLine, PrintsItsHelpWithoutACommand) {
  const Finished help = run({});
  EXPECT_EQ(help.status, 0);
  EXPECT_EQ(help.output, run({"--help"}).output);
  EXPECT_EQ(run({"cache"}).status, 0);
  EXPECT_EQ(run({"cache"}).output, run({"cache", "--help"}).output);
  std::size_t last = 0;
  for (const char* part : {"\nExplore:\n", "\nPlan:\n", "\nPerformance:\n", "\nExtend:\n",
                           "\nMaintain:\n", "\nExit status:\n", "\nEnvironment:\n"}) {
    const std::size_t found = help.output.find(part, last);
    ASSERT_NE(found, help.output.npos) << part;
    last = found;
  }
}

// Commands with the end of their message. All exit with status 2.
TEST(CommandLine, ReportsEveryMistakeAsAUsageError) {
  const std::pair<Args, std::string> wrong[] = {
      {{"lst"}, "there is no command \"lst\" (did you mean \"list\"?). Run `jitstep --help`."},
      {{"cache", "lisst"}, "(did you mean \"list\"?). Run `jitstep cache --help`."},
      {{"inspect", "--stat", "int8"},
       "there is no flag \"--stat\" (did you mean \"--state\"?). Run `jitstep inspect --help`."},
      {{"inspect", "--show", "flta"}, "there is no \"flta\" (did you mean \"flat\"?); there are "},
      {{"inspect", "--target", "cpuu"}, "there is no target \"cpuu\" (did you mean \"cpu\"?)"},
      {{"inspect", "adamw", "--state", "int8"}, "To name a rule, use --rule"},
      {{"inspect", R"({"rule": "lion"})", "--rule", "lion"}, "Leave one out"},
      {{"inspect", "--rule", "adamww"}, "there is no rule \"adamww\" (did you mean \"adamw\"?)"},
      {{"inspect", "--config", "tile_lane=4"},
       "there is no \"tile_lane\" (did you mean \"tile_lanes\"?)"},
      {{"memory", "--params", "7B", "--state", "factord"}, "(did you mean \"factored\"?)"},
      {{"memory", "--params", "7B", "--param", "flaot32"}, "(did you mean \"float32\"?)"},
      {{"memory", "--params", "7B", "--set", "beta=1"}, "(did you mean \"betas\"?)"},
      {{"show", "adamww"}, "(did you mean \"adamw\"?)"},
      {{"tune", "--strategy", "locl"}, "(did you mean \"local\"?)"},
      {{"bench", "--rounds", "0"}, "\"0\" is not a whole number from 1 to 999"},
      {{"cache", "warm"}, "nothing to compile"},
      {{"cache", "export", ""}, "folder: the value is empty. Give a name or path. Run `jitstep "},
      {{"cache", "show", ""}, "entry: the value is empty. Give a name or path. Run `jitstep "},
      {{"cache", "explain", ""}, "entry: the value is empty. Give a name or path. Run `jitstep "},
      {{"compile", "--out", ""}, "--out: the value is empty"},
      {{"bench", "--plot", ""}, "--plot: the value is empty"},
      {{"tune", "--report", ""}, "--report: the value is empty"},
      {{"tune", "--records", ""}, "--records: the value is empty"},
      {{"convert", "", "out.pt"}, "from: the value is empty"},
      {{"check", ""}, "file: the value is empty"},
      {{"inspect", "--config", "vector_elems=4,vector_elems=8"},
       "--config: vector_elems is given twice. Remove one."},
      {{"completion", "tcsh"}, "there is no \"tcsh\""},
      {{"catalogue"}, "there is no command \"catalogue\""}};
  for (const auto& [args, part] : wrong) {
    const Finished result = run(args);
    EXPECT_EQ(result.status, 2) << result.output;
    EXPECT_TRUE(result.output.starts_with("jitstep: ")) << result.output;
    EXPECT_NE(result.output.find(part), result.output.npos) << result.output;
    EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1) << result.output;
  }
}

TEST(CommandLine, PrintsErrorsToStandardError) {
  for (const Args& args : {Args{"lst"},
                           {"show", "none"},
                           {"show", "none.cuh"},
                           {"cache", "explain", "none"},
                           {"cache", "show", "none"},
                           {"inspect", "--target", "sm_10"}}) {
    EXPECT_EQ(stream_of(args, "2> /dev/null"), "") << args.back();
    EXPECT_NE(stream_of(args, "2>&1 > /dev/null"), "") << args.back();
  }
}

TEST(CommandLine, PrintsErrorsAsJsonToo) {
  const std::pair<Args, int> wrong[] = {{{"memory", "--params", "7Q"}, 2},
                                        {{"memory", "--parms", "7B"}, 2},
                                        {{"cache", "show", "none"}, 1}};
  for (auto [args, status] : wrong) {
    args.push_back("--json");
    EXPECT_EQ(run(args).status, status);
    const json error = json::parse(stream_of(args, "2>&1 > /dev/null"));
    EXPECT_EQ(error.at("schema"), 1);
    EXPECT_EQ(error.at("error").at("status"), status);
    EXPECT_FALSE(error.at("error").at("message").get<std::string>().empty());
  }
}

void check_keys(const json& value, const std::string& where) {
  static const std::regex kSnake("[a-z0-9]+(_[a-z0-9]+)*");
  for (const auto& [key, inner] : value.items()) {
    EXPECT_TRUE(!value.is_object() || std::regex_match(key, kSnake)) << where << ": " << key;
    if (inner.is_structured()) check_keys(inner, where);
  }
}

TEST(CommandLine, PrintsOneObjectOfJsonWithSchemaAndKeysInSnakeCase) {
  for (const Args& args : {Args{"list"},
                           {"list", "codecs"},
                           {"show", "lion"},
                           {"memory", "--params", "7B"},
                           {"doctor"},
                           {"cache", "list"},
                           {"cache", "verify"},
                           {"inspect", "--rule", "sgd", "--target", "cpu", "--show", "model"}}) {
    Args all = args;
    all.push_back("--json");
    const json printed = json::parse(stream_of(all, "2> /dev/null"));
    EXPECT_EQ(printed.at("schema"), 1) << args[0];
    check_keys(printed, args[0]);
  }
  const json codec = json::parse(run({"list", "codecs", "--json"}).output).at("codecs").at(0);
  EXPECT_EQ(json::parse(run({"list", "--json", "codecs"}).output).at("codecs").at(0), codec);
  EXPECT_TRUE(codec.at("bits").is_number() && codec.at("block_bytes").is_number()) << codec;
}

TEST(CommandLine, UsesTheSingularForOne) {
  EXPECT_NE(run({"memory", "--params", "1", "--rule", "sgd"}).output.find("sgd, 1 parameter: "),
            std::string::npos);
}

// `--states` sweeps over formats, and excludes `--state`. All commands read `--state` in the same way.
TEST(CommandLine, AcceptsOneStateFormatOrASweep) {
  const auto workloads = [](const Args& flags) {
    Args args = {"tune", "--dry-run", "--sizes", "1M", "--json"};
    args.insert(args.end(), flags.begin(), flags.end());
    std::vector<std::string> names;
    const json printed = json::parse(run(args).output);
    for (const json& one : printed.at("workloads"))
      names.push_back(one.at("workload").get<std::string>().substr(0, 11));
    return names;
  };
  EXPECT_EQ(workloads({"--states", "fp32,int8"}), (Args{"adamw_fp32_", "adamw_int8_"}));
  EXPECT_EQ(workloads({"--state", "int8"}), Args{"adamw_int8_"});
  EXPECT_EQ(workloads({"--state", "m=int8", "--state", "v=int8"}), Args{"adamw_int8_"});
  EXPECT_EQ(run({"tune", "--state", "int8", "--states", "fp32"}).status, 2);
}

TEST(CommandLine, ListsTheVariablesOfTheReference) {
  const std::string help = run({"--help"}).output;
  std::ifstream page(JITSTEP_SOURCE_DIR "/docs/reference/environment.md");
  static const std::regex kRow("^\\| `(\\w+)` \\|.*");
  int found = 0;
  for (std::string line; std::getline(page, line) && !line.starts_with("The scripts");) {
    std::smatch name;
    if (!std::regex_match(line, name, kRow)) continue;
    ++found;
    EXPECT_NE(help.find("\n  " + name[1].str() + " "), help.npos) << name[1];
  }
  EXPECT_GE(found, 14);
}

// ---- completion ----

Args completed(Args args) {
  args.insert(args.begin(), "--complete");
  std::istringstream lines(run(args).output);
  Args all;
  for (std::string line; std::getline(lines, line);) all.push_back(line);
  return all;
}

bool has(const Args& args, const std::string& word) {
  return std::find(args.begin(), args.end(), word) != args.end();
}

TEST(Completion, OffersCommandsFlagsAndValues) {
  EXPECT_TRUE(has(completed({""}), "memory"));
  EXPECT_EQ(completed({"list", ""}), (Args{"rules", "codecs", "weights", "targets"}));
  EXPECT_TRUE(has(completed({"inspect", "--"}), "--target"));
  EXPECT_TRUE(has(completed({"inspect", "--rule", ""}), "adamw"));
  EXPECT_TRUE(has(completed({"inspect", "--rule", "adamw", "--state", ""}), "int8"));
  EXPECT_TRUE(has(completed({"inspect", "--show", "ptx,"}), "ptx,sass"));
  EXPECT_TRUE(has(completed({"show", ""}), "split16"));
  EXPECT_EQ(completed({"check", ""}), Args{}) << "the argument is a file";
}

// Runs the completion script in a shell for the word at the cursor, if the shell is installed.
std::string in_shell(const std::string& shell, const std::string& code,
                     const Variables& changes = {}) {
  const std::string tool = JITSTEP_TOOL;
  const std::string path = "PATH=" + tool.substr(0, tool.rfind('/')) + ":$PATH";
  const Finished result = run_program({"/usr/bin/env", "sh", "-c",
                                       "command -v " + shell + " > /dev/null || exit 77; " + path +
                                           " exec " + shell + " -c '" + code + "'"},
                                      "", own_variables(changes));
  return result.status == 77 ? "missing" : result.output;
}

TEST(Completion, WorksInBash) {
  EXPECT_EQ(
      in_shell("bash",
               "source <(jitstep completion bash); COMP_WORDS=(jitstep inspect --rule adamw); "
               "COMP_CWORD=3; _jitstep; echo \"${COMPREPLY[*]}\"; "
               "COMP_WORDS=(jitstep mem); COMP_CWORD=1; _jitstep; echo \"${COMPREPLY[*]}\""),
      "adamw adamw_bf16\nmemory\n");
}

// bash's `compgen -W` would execute the name. The second candidate comes from a function in place of the tool.
TEST(Completion, InBashExecutesNoNames) {
  const testing::TemporaryFolder folder;
  const std::string names = folder / "templates/rules";
  std::filesystem::create_directories(names);
  std::ofstream(names + "/$(touch made).cuh") << "";
  std::ofstream(names + "/zzz.cuh") << "";
  const std::string code = "source <(jitstep completion bash); cd " + folder.path() +
                           "; COMP_WORDS=(jitstep memory --rule z); COMP_CWORD=3; _jitstep; "
                           "echo \"${COMPREPLY[*]}\"; COMP_WORDS[3]=; _jitstep; "
                           "jitstep() { echo \"\\$(touch made)\"; }; "
                           "_jitstep; echo \"${COMPREPLY[*]}\"";
  EXPECT_EQ(in_shell("bash", code, {{"JITSTEP_TEMPLATES", folder / "templates"}}),
            "zzz\n$(touch made)\n");
  EXPECT_FALSE(std::filesystem::exists(folder / "made"));
}

TEST(Completion, WorksInFish) {
  const std::string result =
      in_shell("fish", "jitstep completion fish | source; complete -C \"jitstep mem\"");
  if (result == "missing") GTEST_SKIP() << "no fish";
  EXPECT_EQ(result, "memory\n");
}

TEST(Completion, WorksInZsh) {
  const std::string result = in_shell(
      "zsh",
      "compdef() { :; }; compadd() { print -l -- ${(P)2}; }; "
      "source <(jitstep completion zsh); words=(jitstep completion \"\"); CURRENT=3; _jitstep");
  if (result == "missing") GTEST_SKIP() << "no zsh";
  EXPECT_EQ(result, "bash\nzsh\nfish\n");
}

}  // namespace
}  // namespace jitstep::jit
