// `jitstep convert`, as users run it. Its results must equal those of an optimizer that loads the same archive.
#include <sys/wait.h>
#include <torch/nn/modules/linear.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "jitstep/jit/catalog.h"
#include "optim/state/param_state_data.h"
#include "optim/training.h"

namespace jitstep::tests {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Finished {
  int status;
  std::string output;  // standard output and standard error
};

// Runs a line in a shell.
Finished shell(const std::string& line) {
  std::FILE* const pipe = ::popen(("{ " + line + "\n} 2>&1").c_str(), "r");
  std::string output;
  for (int c; (c = std::fgetc(pipe)) != EOF;) output += static_cast<char>(c);
  const int status = ::pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), output};
}

Finished converted(const std::string& args) { return shell(JITSTEP_TOOL " convert " + args); }

Tensors parameters_of(torch::Dtype dtype) {
  Tensors parameters = make_parameters(dtype, {{70, 60}, {3}, {64, 80}});
  parameters[2] = torch::randn({80, 64}, dtype).t().set_requires_grad(true);
  return parameters;
}

Tensors tensors_of(const ParamState& state) {
  Tensors all;
  state.data().buffers.for_each_tensor([&](const torch::Tensor& t) { all.push_back(t); });
  return all;
}

// Compares all state bytes, step numbers and ids.
void expect_same_state(Optimizer& a, Optimizer& b) {
  ASSERT_EQ(a.state().size(), b.state().size());
  const Tensors of_a = a.parameters(), of_b = b.parameters();
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    if (a.state().count(of_a[i].unsafeGetTensorImpl()) == 0) continue;
    const ParamState &one = state_of(a, of_a[i]), &other = state_of(b, of_b[i]);
    EXPECT_EQ(one.step(), other.step());
    EXPECT_EQ(one.id(), other.id());
    const Tensors stored = tensors_of(one), expected = tensors_of(other);
    ASSERT_EQ(stored.size(), expected.size());
    for (std::size_t t = 0; t < stored.size(); ++t) {
      ASSERT_EQ(stored[t].defined(), expected[t].defined()) << "tensor " << t;
      EXPECT_TRUE(!stored[t].defined() || torch::equal(stored[t], expected[t])) << "tensor " << t;
    }
  }
}

class Convert : public ::testing::Test {
 protected:
  std::string file(const std::string& name) const { return folder.path + "/" + name; }

  // Saves an archive of an optimizer after three steps.
  std::string saved(const std::string& spec, torch::Dtype dtype = torch::kFloat32) const {
    Tensors parameters = parameters_of(dtype);
    const auto optimizer = Optimizer::from_spec(parameters, spec);
    train(*optimizer, parameters, 1, 3);
    optimizer->save(file("old.pt"));
    return file("old.pt");
  }

  OwnFolder folder;
};

// ---- results ----

struct Case {
  const char *name, *before, *args, *after;
  torch::Dtype dtype = torch::kFloat32;
};

const Case kCases[] = {
    {"fp32_to_int8", R"({"rule": "adamw"})", "--state int8",
     R"({"rule": "adamw", "state": "int8"})"},
    {"int8_to_fp32", R"({"rule": "adamw", "state": "int8"})", "--state fp32",
     R"({"rule": "adamw"})"},
    {"slot_by_slot", R"({"rule": "adam", "options": {"amsgrad": true}, "state": "bf16"})",
     "--state m=int4 --state exp_avg_sq=int8",
     R"({"rule": "adam", "options": {"amsgrad": true}, "state": {"m": "int4", "v": "int8", "vmax": "bf16"}})"},
    {"drawn_codes", R"({"rule": "lion"})", R"(--state '{"codec": "int8", "stochastic": true}')",
     R"({"rule": "lion", "state": {"codec": "int8", "stochastic": true}})"},
    {"rows_and_columns", R"({"rule": "adafactor"})", "--state int4_rank1",
     R"({"rule": "adafactor", "state": "int4_rank1"})"},
    {"memory_of_all", R"({"rule": "prodigy"})", "--state fp8 --state p0=bf16",
     R"({"rule": "prodigy", "state": {"p0": "bf16", "m": "fp8", "v": "fp8", "s": "fp8"}})"},
    {"small_parameters", R"({"rule": "adamw"})", "--state int8 --min-quantized-size 0",
     R"({"rule": "adamw", "state": "int8", "min_quantized_size": 0})"},
    {"halves_of_weights", R"({"rule": "adamw", "weights": "split16"})", "--state int4",
     R"({"rule": "adamw", "weights": "split16", "state": "int4"})", torch::kBFloat16},
    {"weights_without_more", R"({"rule": "adamw", "weights": "master"})",
     "--state int8 --weights native", R"({"rule": "adamw", "state": "int8"})", torch::kBFloat16},
    {"float64", R"({"rule": "adamw"})", "--state int8", R"({"rule": "adamw", "state": "int8"})",
     torch::kFloat64},
};

class ConvertOf : public Convert, public ::testing::WithParamInterface<Case> {};

// The new archive must equal that of an optimizer with these formats that loads the old one, and training must continue
// alike.
TEST_P(ConvertOf, EqualsLoading) {
  const Case& one = GetParam();
  saved(one.before, one.dtype);
  const Finished result = converted(file("old.pt") + " " + file("new.pt") + " " + one.args);
  ASSERT_EQ(result.status, 0) << result.output;
  Tensors old_way = parameters_of(one.dtype), new_way = clones(old_way);
  const auto expected = Optimizer::from_spec(old_way, one.after);
  const auto optimizer = Optimizer::from_spec(new_way, one.after);
  expected->load(file("old.pt"));
  {
    const Warnings warnings;
    optimizer->load(file("new.pt"));
    EXPECT_EQ(warnings.all, "") << "no conversion must remain";
  }
  expect_same_state(*optimizer, *expected);
  train(*expected, old_way, 4, 5);
  train(*optimizer, new_way, 4, 5);
  expect_equal(new_way, old_way);
}

INSTANTIATE_TEST_SUITE_P(Formats, ConvertOf, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return test.param.name; });

// Converts from and to every shipped codec.
TEST_F(Convert, ConvertsEveryCodec) {
  for (const std::string& codec : jit::default_catalog().names(jit::Manifest::Kind::codec)) {
    SCOPED_TRACE(codec);
    const std::string other = codec == "bf16" ? "fp32" : "bf16";
    saved(R"({"rule": "adamw", "state": ")" + codec + "\"}");
    const Finished result =
        converted(file("old.pt") + " " + file("new.pt") + " --overwrite --state " + other);
    ASSERT_EQ(result.status, 0) << result.output;
    Tensors old_way = parameters_of(torch::kFloat32), new_way = clones(old_way);
    const std::string after = R"({"rule": "adamw", "state": ")" + other + "\"}";
    const auto expected = Optimizer::from_spec(old_way, after);
    const auto optimizer = Optimizer::from_spec(new_way, after);
    expected->load(file("old.pt"));
    optimizer->load(file("new.pt"));
    expect_same_state(*optimizer, *expected);
  }
}

TEST_F(Convert, ThereAndBackEqualsLoadingTwice) {
  saved(R"({"rule": "adamw"})");
  for (const char* args : {"old.pt new.pt --state int8", "new.pt back.pt --state fp32"})
    ASSERT_EQ(shell("cd " + folder.path + "; " JITSTEP_TOOL " convert " + args).status, 0);
  Tensors a = parameters_of(torch::kFloat32), b = clones(a), c = clones(a);
  AdamW narrow(a, AdamWOptions().state("int8")), wide(b), back(c);
  narrow.load(file("old.pt"));
  copy_through_archive(narrow, wide);
  back.load(file("back.pt"));
  expect_same_state(back, wide);
}

TEST_F(Convert, KeepsRulesModesOptionsAndParametersWithoutState) {
  Tensors parameters = make_parameters(torch::kFloat32, {{70, 60}, {64, 80}, {5000}, {4}});
  const auto groups = [&](Tensors p, const char* state) {
    using Group = Optimizer::ParamGroup;
    return std::vector<Group>{
        Group({p[0], p[1]}, std::make_unique<MuonOptions>(MuonOptions(0.03).state(state))),
        Group({p[2], p[3]}, std::make_unique<AdamWOptions>(AdamWOptions(0.004).state(state)))};
  };
  Optimizer optimizer(groups(parameters, "fp32"));
  set_gradients(parameters, 1);
  parameters[1].mutable_grad() = parameters[3].mutable_grad() = torch::Tensor();
  optimizer.step();
  optimizer.save(file("old.pt"));
  const Finished result =
      converted(file("old.pt") + " " + file("new.pt") + " --state int8 --state v=bf16 --json");
  ASSERT_EQ(result.status, 0) << result.output;
  const json all = json::parse(result.output);
  EXPECT_EQ(all.at("rules"), json({"muon", "adamw"}));
  EXPECT_EQ(all.at("parameters"), 4);
  EXPECT_EQ(all.at("with_state"), 2);
  EXPECT_EQ(all.at("elements"), 70 * 60 + 5000);
  Tensors old_way = clones(parameters), new_way = clones(parameters);
  Optimizer expected(groups(old_way, "int8")), same(groups(new_way, "int8"));
  for (Optimizer* one : {&expected, &same})
    static_cast<Options&>(one->param_groups()[1].options()).edit_formats().slots["v"] = {"bf16"};
  expected.load(file("old.pt"));
  same.load(file("new.pt"));
  expect_same_state(same, expected);
  EXPECT_EQ(same.param_groups()[0].options().get_lr(), 0.03);
}

TEST_F(Convert, KeepsTheModeOfTheSavedOptimizer) {
  Tensors parameters = parameters_of(torch::kFloat32), loaded = clones(parameters);
  ScheduleFreeAdamW optimizer(parameters), other(loaded);
  train(optimizer, parameters, 1, 2);
  optimizer.eval();
  optimizer.save(file("old.pt"));
  ASSERT_EQ(converted(file("old.pt") + " " + file("new.pt") + " --state v=int8").status, 0);
  other.load(file("new.pt"));
  EXPECT_FALSE(other.is_training());
}

TEST_F(Convert, ReadsTorchsArchivesAndTorchReadsItsArchives) {
  Tensors parameters = parameters_of(torch::kFloat32), loaded = clones(parameters),
          torchs = clones(parameters);
  torch::optim::Adam adam(parameters, torch::optim::AdamOptions(0.02));
  train(adam, parameters, 1, 3);
  torch::save(adam, file("torch.pt"));
  const std::string args = file("torch.pt") + " " + file("new.pt") + " --state int8";
  EXPECT_HAS(converted(args).output, "Pass --rule, as in --rule adamw");
  ASSERT_EQ(converted(args + " --rule adam").status, 0);
  Adam expected(loaded, AdamOptions().state("int8")),
      ours(clones(loaded), AdamOptions().state("int8"));
  torch::load(expected, file("torch.pt"));
  ours.load(file("new.pt"));
  expect_same_state(ours, expected);
  ASSERT_EQ(converted(file("new.pt") + " " + file("back.pt") + " --state fp32").status, 0);
  torch::optim::Adam again(torchs, torch::optim::AdamOptions());
  torch::load(again, file("back.pt"));
  EXPECT_EQ(again.param_groups()[0].options().get_lr(), 0.02);
  train(again, torchs, 4, 4);
  const Finished other = converted(args + " --overwrite --rule sgd");
  EXPECT_EQ(other.status, 1);
  EXPECT_HAS(other.output, "none of the slots of sgd");
}

TEST_F(Convert, LoadsUserRulesAndCodecs) {
  const std::string rule = example_file("signum.cuh"), codec = example_file("linear8.cuh");
  load_rule(rule);
  load_codec(codec);
  saved(R"({"rule": "signum", "state": "linear8"})");
  const std::string args = file("old.pt") + " " + file("new.pt") + " --state int8";
  EXPECT_HAS(converted(args).output, "the rule signum, which does not ship with jitstep");
  const Finished result = converted("--load " + rule + " --load " + codec + " " + args);
  ASSERT_EQ(result.status, 0) << result.output;
  EXPECT_HAS(result.output, "linear8");
  const Finished back =
      converted(file("new.pt") + " " + file("own.pt") + " --load " + rule + " --state " + codec);
  EXPECT_EQ(back.status, 0) << back.output;
}

TEST_F(Convert, NeedsNoFunctionOfARulesHostTransform) {
  register_host_transform("only_here", [](const torch::Tensor& x, const auto&) { return x; });
  const std::string rule = own_file("transformed.cuh", R"(// A probe.
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::transformed {
struct Hyper {
  double lr = 1;  // >= 0
};
struct Transforms {
  real passed;  // host: only_here
};
struct Slots {
  Signed m;
};
struct Rule {
  KHD static real passed(const auto& e, const auto&) { return e.g; }
  KHD static void update_state(auto& e, const auto&) { e.m.next = e.g; }
  KHD static void update_param(auto& e, const auto&) { e.p -= e.passed * e.m.next; }
};
}
)");
  load_rule(rule);
  saved(R"({"rule": "transformed"})");
  const Finished result =
      converted("--load " + rule + " " + file("old.pt") + " " + file("new.pt") + " --state int8");
  EXPECT_EQ(result.status, 0) << result.output;
}

// ---- errors ----

// One line of error and no new file. The archive does not change.
TEST_F(Convert, EveryErrorIsOneLine) {
  const std::string old = saved(R"({"rule": "adamw", "state": "int8"})"),
                    before = text_of_file(old);
  std::ofstream(file("cut.pt")) << before.substr(0, before.size() / 2);
  std::ofstream(file("text.pt")) << "no archive";
  torch::save(torch::nn::Linear(2, 3), file("model.pt"));
  fs::create_symlink("nowhere", file("link.pt"));
  const std::pair<std::string, std::string> wrong[] = {
      {"none.pt new.pt", "jitstep: cannot load an optimizer from none.pt: there is no such file"},
      {". new.pt", "from .: the folder has no file index.pt"},
      {"cut.pt new.pt", "from cut.pt: the file is truncated"},
      {"text.pt new.pt", "from text.pt: the file is truncated"},
      {"model.pt new.pt", "contains no optimizer"},
      {"old.pt old.pt --state fp32", "old.pt exists already"},
      {"old.pt link.pt", "link.pt exists already"},
      {"old.pt none/new.pt", "cannot be saved to none/new.pt"},
      {"old.pt " + std::string(300, 'n'), "File name too long"},
      {"old.pt new.pt --state int9", "int9"},
      {"old.pt new.pt --state q=int8", "there is no slot \"q\". Slots: exp_avg"},
      {"old.pt new.pt --state int8 --state int4", "--state is given twice"},
      {"old.pt new.pt --weights master", "--weights master: its residual needs the parameters"},
      {"old.pt new.pt --weights wide", "wide"},
      {"old.pt new.pt --rule lamb", "wrong --rule lamb: old.pt has state of adamw"},
      {"old.pt new.pt --load none.cuh", "none.cuh"}};
  for (const auto& [args, part] : wrong) {
    const Finished result = shell("cd " + folder.path + "; " JITSTEP_TOOL " convert " + args);
    const bool usage = std::string(args).find("--") != std::string::npos &&
                       part != "old.pt exists already" && part != "none.cuh";
    EXPECT_EQ(result.status, usage ? 2 : 1) << args;
    EXPECT_HAS(result.output, "jitstep: ");
    EXPECT_HAS(result.output, part) << args;
    EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1) << result.output;
    EXPECT_FALSE(fs::exists(file("new.pt"))) << args;
  }
  EXPECT_EQ(text_of_file(old), before);
  for (const char* args :
       {"", "old.pt", "old.pt new.pt more", "--nothing", "old.pt new.pt --min-quantized-size -1"})
    EXPECT_EQ(converted(args).status, 2) << args;
}

TEST_F(Convert, AFileIsReplacedOnlyByACompleteOne) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer cannot start with this limit on file sizes";
#endif
  const std::string old = saved(R"({"rule": "adamw"})"), before = text_of_file(old);
  const std::string replace =
      old + " " + old + " --overwrite";  // compiles no kernel, because that would write a file too
  const Finished full = shell("trap '' XFSZ; ulimit -f 1; " JITSTEP_TOOL " convert " + replace);
  EXPECT_EQ(full.status, 1);
  EXPECT_HAS(full.output, "ulimit -f");
  EXPECT_EQ(text_of_file(old), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path), {}), 1)
      << "no temporary file remains";
  EXPECT_EQ(converted("--state int8 " + replace).status, 0);
  EXPECT_LT(fs::file_size(old), before.size() / 2);
}

// The addresses of parameters, which differ between processes, are keys and values of archives.
std::string without_address(const std::string& text) {
  const bool is_address = text.size() > 9 && std::all_of(text.begin(), text.end(), ::isdigit);
  return is_address ? "address" : text;
}

std::string content_of(const c10::IValue& value) {
  std::ostringstream text;
  if (value.isTensor()) {
    const torch::Tensor tensor = value.toTensor().contiguous();
    text << tensor.dtype() << tensor.sizes() << value.toTensor().strides();
    text.write(static_cast<const char*>(tensor.const_data_ptr()),
               static_cast<std::streamsize>(tensor.nbytes()));
  } else if (value.isString()) {
    text << without_address(value.toStringRef());
  } else {
    text << value;
  }
  return text.str();
}

// All entries of an archive, in an order that does not depend on addresses.
std::string content_of(torch::serialize::InputArchive& archive) {
  std::multiset<std::string> entries;
  for (const std::string& key : archive.keys()) {
    torch::serialize::InputArchive inner;
    c10::IValue value;
    const bool nested = archive.try_read(key, inner);
    if (!nested) archive.read(key, value);
    entries.insert(without_address(key) + ": " + (nested ? content_of(inner) : content_of(value)));
  }
  std::string text;
  for (const std::string& entry : entries) text += entry + "\n";
  return "{" + text + "}";
}

std::string content_of(const std::string& file) {
  torch::serialize::InputArchive archive;
  archive.load_from(file);
  return content_of(archive);
}

TEST_F(Convert, CutsAFileIntoPartsAndMergesThem) {
  for (const std::string spec : {R"({"rule": "adafactor", "state": "int4_rank1"})",
                                 R"({"rule": "prodigy", "state": {"m": "fp8_norm"}})"}) {
    SCOPED_TRACE(spec);
    const std::string old = saved(spec), parts = file("parts"), merged = file("merged.pt");
    ASSERT_EQ(converted(old + " " + parts + " --overwrite --ranks 3").status, 0);
    EXPECT_EQ(std::distance(fs::directory_iterator(parts), {}), 4);
    ASSERT_EQ(converted(parts + " " + merged + " --overwrite").status, 0);
    ASSERT_EQ(converted(old + " " + file("again.pt") + " --overwrite").status, 0);
    const std::string content = content_of(merged);
    EXPECT_EQ(content, content_of(file("again.pt")));
    EXPECT_GT(content.size(), 3000u);
  }
}

TEST_F(Convert, ChangesTheFormatAndTheNumberOfPartsOfAFolder) {
  const std::string old = saved(R"({"rule": "adamw"})"), parts = file("parts");
  ASSERT_EQ(converted(old + " " + parts + " --ranks 2").status, 0);
  EXPECT_EQ(converted(old + " " + parts + " --ranks 2").status, 1) << "it exists";
  ASSERT_EQ(converted(parts + " " + parts + " --state int8 --ranks 4 --overwrite").status, 0);
  EXPECT_EQ(std::distance(fs::directory_iterator(parts), {}), 5);
  ASSERT_EQ(converted(parts + " " + file("a.pt")).status, 0);
  ASSERT_EQ(converted(old + " " + file("b.pt") + " --state int8").status, 0);
  EXPECT_EQ(content_of(file("a.pt")), content_of(file("b.pt")));
}

TEST_F(Convert, NamesTheDamagedFileOfAFolder) {
  ASSERT_EQ(converted(saved(R"({"rule": "adamw"})") + " " + file("parts") + " --ranks 2").status,
            0);
  const auto fails_with = [&](const std::string& from, const std::string& what) {
    const Finished result = converted(from + " " + file("new.pt"));
    EXPECT_EQ(result.status, 1);
    EXPECT_HAS(result.output, what);
    EXPECT_FALSE(fs::exists(file("new.pt")));
  };
  fs::copy_file(file("parts/index.pt"), file("moved.pt"));
  fails_with(file("moved.pt"), "the index of a folder");
  for (const auto& entry : fs::directory_iterator(file("parts")))
    if (entry.path().filename() != "index.pt") fs::resize_file(entry.path(), 100);
  fails_with(file("parts"), "-of-2.pt, a part of the checkpoint");
}

TEST_F(Convert, ALinkIsFollowedToItsTarget) {
  const std::string old = saved(R"({"rule": "adamw"})");
  fs::create_symlink("small.pt", file("latest.pt"));
  EXPECT_EQ(converted("--state int8 " + old + " " + file("latest.pt")).status, 1);
  EXPECT_EQ(converted("--state int8 " + old + " " + file("latest.pt") + " --overwrite").status, 0);
  EXPECT_TRUE(fs::is_symlink(file("latest.pt")));
  EXPECT_LT(fs::file_size(file("small.pt")), fs::file_size(old) / 2);
}

TEST_F(Convert, ALinkToAMissingFileStaysALink) {
  const std::string old = saved(R"({"rule": "adamw"})");
  fs::create_symlink("later.pt", file("latest.pt"));
  EXPECT_EQ(converted("--state int8 " + old + " " + file("latest.pt") + " --overwrite").status, 0);
  EXPECT_TRUE(fs::is_symlink(file("latest.pt")));
  EXPECT_TRUE(fs::is_regular_file(file("later.pt")));
}

// A build of jitstep without LibTorch.
TEST_F(Convert, ReportsThatItWasNotBuilt) {
  fs::copy_file(JITSTEP_TOOL, file("jitstep"));
  const Finished result = shell(file("jitstep") + " convert a b");
  EXPECT_EQ(result.status, 1);
  EXPECT_HAS(result.output,
             "cannot convert: the program " + file("jitstep-convert") + " is missing");
}

TEST_F(Convert, FailsIfItsOutputCannotBeWritten) {
  const Finished result = shell(std::string(JITSTEP_TOOL) + " convert --help 2>&1 > /dev/full");
  EXPECT_EQ(result.status, 1);
  EXPECT_HAS(result.output, "No space left on device");
}

TEST_F(Convert, ReportsTheConversionOfEachSlot) {
  saved(R"({"rule": "adamw"})");
  const std::string args = file("old.pt") + " " + file("new.pt") + " --overwrite --state m=int8";
  const Finished table = converted(args);
  EXPECT_HAS(table.output, "adamw, 3 parameters, 3 with state, 9323 elements");
  EXPECT_HAS(table.output, "m  fp32  int8");
  const json all = json::parse(converted(args + " --json").output);
  EXPECT_EQ(all.at("state_bytes_before"), 8 * 9323);
  const json first = {
      {"what", "m"}, {"from", "fp32"}, {"to", all.at("parts")[0].at("to")}, {"parameters", 2}};
  EXPECT_EQ(all.at("parts")[0], first);
  EXPECT_EQ(all.at("parts").size(), 3u) << "m in two formats, v in one";
}

}  // namespace
}  // namespace jitstep::tests
