// memory_report(): each tensor once, under its format, with the figures of docs/reference/bytes.md.
#include <nlohmann/json.hpp>
#include <numeric>

#include "jitstep/jit/catalog.h"
#include "optim/state/param_state_data.h"
#include "optim/training.h"

namespace jitstep::tests {
namespace {

using Kind = MemoryReport::Kind;
using nlohmann::json;

std::int64_t bytes_of(const std::vector<MemoryReport::Entry>& parts, Kind kind) {
  std::int64_t sum = 0;
  for (const auto& part : parts) sum += part.kind == kind ? part.bytes : 0;
  return sum;
}

// ---- the figures of docs/reference/bytes.md ----

// Bytes per parameter of each rule, by codec: docs/reference/bytes.md.
std::map<std::string, std::map<std::string, double>> promised_bytes() {
  const auto cells = [](const std::string& line) {
    std::vector<std::string> words;
    for (std::size_t at = 2, end; (end = line.find(" |", at)) != line.npos; at = end + 3)
      words.push_back(line.substr(at, end - at));
    return words;
  };
  std::istringstream page(text_of_file(JITSTEP_SOURCE_DIR "/docs/reference/bytes.md"));
  std::string line;
  while (line.find("| optimizer | launches |") != 0) std::getline(page, line);
  const auto head = cells(line);
  std::getline(page, line);
  std::map<std::string, std::map<std::string, double>> bytes;
  while (std::getline(page, line) && !line.empty()) {
    const auto row = cells(line);
    const std::string rule = row.at(0).substr(1, row.at(0).find(']') - 1);
    for (std::size_t i = 2; i < head.size(); ++i) bytes[rule][head[i]] = std::stod(row.at(i));
  }
  return bytes;
}

// Each codec with one rule. every_rule_long_test.cpp compares each rule in all codecs with its layout.
TEST(MemoryReport, AgreesWithTheTableOfBytesForEveryCodec) {
  const auto promised = promised_bytes();
  const auto codecs = shipped(jit::Manifest::Kind::codec),
             rules = shipped(jit::Manifest::Kind::rule);
  for (std::size_t i = 0; i < codecs.size(); ++i) {
    const std::string& codec = codecs[i];
    const std::string& rule = rules[i * rules.size() / codecs.size()];
    const Tensors parameters = make_parameters(torch::kFloat32, {{1024, 1024}});
    Optimizer optimizer(rule, parameters, GenericOptions().state(codec));
    train(optimizer, parameters, 1, 1);
    const MemoryReport report = optimizer.memory_report();
    const double state = static_cast<double>(report.parameters.at(0).bytes()) / (1 << 20) - 8;
    EXPECT_NEAR(state, promised.at(rule).at(codec), 0.00051) << rule << " in " << codec;
  }
}

TEST(MemoryReport, MeasuresTheResidualOfEveryWeightFormat) {
  for (const std::string& weights : shipped(jit::Manifest::Kind::weights)) {
    const Tensors parameters = make_parameters(torch::kBFloat16, {{64, 80}, {7}, {0, 3}});
    AdamW optimizer(parameters, AdamWOptions().weights(weights));
    train(optimizer, parameters, 1, 1);
    const int residual = jit::default_catalog().weights(weights).residual_bytes();
    const MemoryReport report = optimizer.memory_report();
    EXPECT_EQ(report.bytes(), (64 * 80 + 7) * (2 + 2 + 8 + residual)) << weights;
    for (const auto& part : report.by_format())
      EXPECT_EQ(part.kind == Kind::residual ? part.format : weights, weights);
    EXPECT_EQ(bytes_of(report.by_format(), Kind::residual), (64 * 80 + 7) * residual) << weights;
  }
}

// ---- no state, no parameters, and memory of no parameter ----

TEST(MemoryReport, ReportsThatThereIsNoStateBeforeTheFirstStep) {
  const Tensors parameters = make_parameters(torch::kFloat32, {{5, 3}, {2}});
  AdamW optimizer(parameters);
  const MemoryReport before = optimizer.memory_report();
  EXPECT_EQ(before.bytes(), 17 * 4) << "no gradients either";
  EXPECT_EQ(before.state_bytes(), 0);
  EXPECT_EQ(before.elements(), 17);
  EXPECT_HAS(before.text(), "2 parameters of 17 elements: 68 bytes; 2 have no state");
  parameters[1].mutable_grad() = torch::ones({2});
  optimizer.step();
  const MemoryReport after = optimizer.memory_report();
  EXPECT_FALSE(after.parameters.at(0).has_state);
  EXPECT_TRUE(after.parameters.at(1).has_state);
  EXPECT_EQ(after.bytes(), 17 * 4 + 2 * 4 + 2 * 8);
  EXPECT_HAS(after.text(), "; 1 has no state");
}

TEST(MemoryReport, IsZeroForNoParametersAndForEmptyOnes) {
  const Tensors parameters = make_parameters(torch::kFloat32, {{0, 4}});
  AdamW optimizer(parameters);
  train(optimizer, parameters, 1, 1);
  EXPECT_EQ(optimizer.memory_report().bytes(), 0);
  EXPECT_HAS(optimizer.memory_report().text(), "1 parameter of 0 elements: 0 bytes");
  EXPECT_EQ(MemoryReport().bytes(), 0);
  EXPECT_EQ(json::parse(MemoryReport().json()).at("parameters"), json::array());
}

TEST(MemoryReport, CountsSharedStateAndCountersOfSkippedSteps) {
  const Tensors parameters = make_parameters(torch::kFloat32, {{5}, {6}});
  Optimizer optimizer("prodigy", parameters);
  optimizer.set_found_inf(torch::zeros({1}));
  train(optimizer, parameters, 1, 1);
  const MemoryReport report = optimizer.memory_report();
  ASSERT_EQ(report.others.size(), 2u);
  EXPECT_EQ(report.others[0].name, "d, d_max, d_numerator, k");
  EXPECT_EQ(report.others[0].bytes, 2 * 4 * 8);
  EXPECT_EQ(report.others[1].bytes, 8) << "one counter for all parameters";
  EXPECT_EQ(report.parameters.at(1).entries.back().name, "skipped steps");
  EXPECT_EQ(report.parameters.at(1).entries.back().bytes, 8);
  const auto& states = optimizer.state();
  const std::int64_t own = std::accumulate(
      states.begin(), states.end(), std::int64_t{0}, [](std::int64_t sum, const auto& entry) {
        return sum + static_cast<const ParamState&>(*entry.second).bytes();
      });
  EXPECT_EQ(report.state_bytes(), own + 64 + 3 * 8);
  EXPECT_HAS(report.text(), "     72              -  of no single parameter\n");
}

TEST(MemoryReport, NamesTheRuleOfEachGroup) {
  const Tensors a = make_parameters(torch::kFloat32, {{8, 8}}), b = clones(a);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(a, std::make_unique<LionOptions>(1e-3));
  groups.emplace_back(b, std::make_unique<AdafactorOptions>());
  Optimizer optimizer(groups);
  train(optimizer, {a[0], b[0]}, 1, 1);
  const MemoryReport report = optimizer.memory_report();
  EXPECT_EQ(report.parameters.at(0).rule, "lion");
  EXPECT_EQ(report.parameters.at(1).rule, "adafactor");
  EXPECT_EQ(report.parameters.at(1).group, 1u);
  EXPECT_EQ(bytes_of(report.parameters[0].entries, Kind::state), 64 * 4);
  EXPECT_EQ(bytes_of(report.parameters[1].entries, Kind::aux_state), 2 * (8 + 8) * 4);
}

// ---- shared memory counts once ----

TEST(MemoryReport, CountsViewsOfOneBufferAsTheBuffer) {
  const torch::Tensor values = torch::randn({100}), slopes = torch::randn({100});
  Tensors parameters;
  for (const auto& [from, to] : {std::pair{0, 40}, {40, 100}}) {
    parameters.push_back(values.slice(0, from, to).detach().set_requires_grad(true));
    parameters.back().mutable_grad() = slopes.slice(0, from, to);
  }
  AdamW optimizer(parameters);
  const MemoryReport report = optimizer.memory_report();
  EXPECT_EQ(bytes_of(report.by_format(), Kind::parameters), 400);
  EXPECT_EQ(bytes_of(report.parameters.at(0).entries, Kind::gradients), 160);
  EXPECT_EQ(bytes_of(report.by_format(), Kind::gradients), 400);
}

TEST(MemoryReport, CountsAnExpandedGradientAsOneElement) {
  const Tensors parameters = make_parameters(torch::kFloat32, {{300}});
  parameters[0].mutable_grad() = torch::ones({1}).expand({300});
  AdamW optimizer(parameters);
  EXPECT_EQ(bytes_of(optimizer.memory_report().by_format(), Kind::gradients), 4);
}

TEST(MemoryReport, CountsAGradientThatParametersShareOnce) {
  const Tensors parameters = make_parameters(torch::kFloat32, {{40}, {40}});
  const torch::Tensor slopes = torch::ones({100});
  for (const auto& p : parameters) p.mutable_grad() = slopes.slice(0, 30, 70);
  AdamW optimizer(parameters);
  EXPECT_EQ(bytes_of(optimizer.memory_report().by_format(), Kind::gradients), 160);
}

TEST(MemoryReport, ListsARepeatedParameterOnce) {
  Warnings warnings;
  const Tensors parameters = make_parameters(torch::kFloat32, {{5, 3}});
  AdamW optimizer({parameters[0], parameters[0]});
  EXPECT_EQ(optimizer.memory_report().parameters.size(), 1u);
  EXPECT_EQ(optimizer.memory_report().bytes(), 60);
}

TEST(MemoryReport, CountsStateThatCopiesShareOnce) {
  const Tensors parameters = make_parameters(torch::kFloat32, {{5, 3}, {5, 3}});
  AdamW optimizer(parameters);
  train(optimizer, parameters, 1, 1);
  EXPECT_EQ(optimizer.memory_report().state_bytes(), 2 * 15 * 8);
  optimizer.state()[parameters[1].unsafeGetTensorImpl()] =
      state_of(optimizer, parameters[0]).clone();
  const MemoryReport report = optimizer.memory_report();
  EXPECT_EQ(report.state_bytes(), 15 * 8);
  EXPECT_TRUE(report.parameters.at(1).has_state);
  EXPECT_EQ(bytes_of(report.parameters[1].entries, Kind::state), 0) << "counted with the first one";
}

TEST(MemoryReport, FindsStateThatWasMoved) {
  const Tensors parameters = make_parameters(torch::kFloat32, {{5, 3}}),
                others = clones(parameters);
  AdamW from(parameters), to(others);
  train(from, parameters, 1, 1);
  to.state()[others[0].unsafeGetTensorImpl()] =
      std::move(from.state().at(parameters[0].unsafeGetTensorImpl()));
  EXPECT_EQ(from.memory_report().state_bytes(), 0);
  EXPECT_EQ(to.memory_report().state_bytes(), 15 * 8);
}

TEST(MemoryReport, CountsStateWhoseParameterIsGone) {
  const Tensors parameters = make_parameters(torch::kFloat32, {{64, 64}, {3}});
  AdamW optimizer(parameters, AdamWOptions().state("int8"));
  train(optimizer, parameters, 1, 1);
  const std::int64_t bytes = optimizer.memory_report().state_bytes();
  optimizer.param_groups()[0].params().erase(optimizer.param_groups()[0].params().begin());
  const MemoryReport report = optimizer.memory_report();
  EXPECT_EQ(report.parameters.size(), 1u);
  EXPECT_EQ(bytes_of(report.others, Kind::state), 2 * 4096);
  EXPECT_EQ(bytes_of(report.others, Kind::scales), 2 * 16 * 4);
  EXPECT_EQ(report.state_bytes(), bytes);
}

TEST(MemoryReport, DoesNotLetAStateTensorEscape) {
  const Tensors parameters = make_parameters();
  AdamW optimizer(parameters);
  train(optimizer, parameters, 1, 1);
  optimizer.memory_report();
  EXPECT_FALSE(state_of(optimizer, parameters[0]).data().escaped.is_set())
      << "each step would check it again";
}

// ---- as text and as JSON ----

// One parameter in 4 bits, and one that is too small for quantization.
MemoryReport small_report() {
  const Tensors parameters = make_parameters(torch::kBFloat16, {{64, 64}, {3}});
  AdamW optimizer(parameters, AdamWOptions().state("int4").weights("split16"));
  train(optimizer, parameters, 1, 1);
  return optimizer.memory_report();
}

TEST(MemoryReport, PrintsTwoTablesAsText) {
  EXPECT_EQ(small_report().text(),
            "2 parameters of 4099 elements: 28970 bytes\n\n"
            "            format    tensors  bytes  bytes/element\n"
            "parameters  bfloat16        2   8198         2.0000\n"
            "gradients   bfloat16        2   8198         2.0000\n"
            "state       fp32            2     24         0.0059\n"
            "state       int4            2   4096         0.9993\n"
            "scales      int4            2    256         0.0625\n"
            "residual    split16         2   8198         2.0000\n"
            "all                            28970         7.0676\n\n"
            "group  index  sizes     rule   parameter  gradient  state  bytes/element  formats\n"
            "    0      0  [64, 64]  adamw       8192      8192  12544         7.0625  bfloat16, "
            "split16, "
            "m int4, v int4\n"
            "    0      1  [3]       adamw          6         6     30        14.0000  bfloat16, "
            "split16, "
            "m fp32, v fp32\n");
}

TEST(MemoryReport, PrintsOneObjectAsJson) {
  const json all = json::parse(small_report().json());
  EXPECT_EQ(all.at("elements"), 4099);
  EXPECT_EQ(all.at("bytes"), 28970);
  EXPECT_EQ(all.at("state_bytes"), 28970 - 4 * 4099);
  EXPECT_EQ(all.at("formats").at(3), json::parse(R"(
      {"kind": "state", "format": "int4", "tensors": 2, "bytes": 4096})"));
  EXPECT_EQ(all.at("parameters").at(1), json::parse(R"({
      "group": 0, "index": 1, "sizes": [3], "elements": 3, "rule": "adamw", "has_state": true, "bytes": 42,
      "entries": [{"kind": "parameters", "format": "bfloat16", "tensors": 1, "bytes": 6},
                  {"kind": "gradients", "format": "bfloat16", "tensors": 1, "bytes": 6},
                  {"kind": "state", "name": "m", "format": "fp32", "tensors": 1, "bytes": 12},
                  {"kind": "state", "name": "v", "format": "fp32", "tensors": 1, "bytes": 12},
                  {"kind": "residual", "format": "split16", "tensors": 1, "bytes": 6}]})"));
  EXPECT_EQ(all.at("others"), json::array());
}

TEST(MemoryReport, ReportsStateOfFloat64ParametersAsFloat64) {
  const Tensors parameters = make_parameters(torch::kFloat64, {{64, 64}});
  AdamW optimizer(parameters, AdamWOptions().state("int8"));
  train(optimizer, parameters, 1, 1);
  const MemoryReport report = optimizer.memory_report();
  EXPECT_EQ(report.by_format().back().format, "float64");
  EXPECT_EQ(report.state_bytes(), 4096 * 16);
}

}  // namespace
}  // namespace jitstep::tests
