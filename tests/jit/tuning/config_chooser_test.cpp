#include "jit/tuning/config_chooser.h"

#include <sys/stat.h>

#include <chrono>
#include <thread>

#include "jit/cache/cache_fixtures.h"
#include "jit/step/step_fixtures.h"
#include "jit/tuning/embedded_records.h"
#include "jit/tuning/tuning_files.h"
#include "jit/tuning/tuning_samples.h"

namespace jitstep::jit {
namespace {

using testing::adamw_plan;
using testing::settings_with_cache;
using testing::TemporaryFolder;
using testing::won_record;

class ChosenByRecords : public ::testing::Test {
 protected:
  // A record of this hardware and of the current templates.
  TuningRecord record(int chunk) {
    TuningRecord made = won_record({4096, 1}, host_hardware());
    made.versions = versions_of(engine(), adamw_plan(), Target::cpu());
    made.config = default_kernel_config(adamw_plan(), Target::cpu());
    made.config.leaves_per_item = chunk;
    return made;
  }
  Engine& engine() {
    if (!engine_) {
      Settings settings = settings_with_cache(folder / "cache");
      settings.cache_readonly = folder / "below";
      make_folder(settings.cache_readonly);
      engine_ = std::make_unique<Engine>(settings);
    }
    return *engine_;
  }
  void write(const std::string& name, const TuningRecord& one) {
    ASSERT_EQ(add_record(folder / (name + "/tuning.jsonl"), one), std::nullopt);
  }
  ConfigChoice chosen(CpuBackend& backend) {
    return Step(backend, {{adamw_plan(), testing::tensors(1, 4096)}}).choice();
  }

  TemporaryFolder folder;
  std::unique_ptr<Engine> engine_;
};

TEST_F(ChosenByRecords, AStepUsesTheUsersRecordAndReportsIt) {
  write("cache", record(64));
  CpuBackend backend(engine());
  const ConfigChoice choice = chosen(backend);
  EXPECT_EQ(choice.match, Match::exact);
  EXPECT_EQ(choice.config.leaves_per_item, 64);
  EXPECT_NE(choice.why.find("1.25 times as fast"), std::string::npos) << choice.why;
}

TEST_F(ChosenByRecords, TheUsersRecordIsPreferredToTheReadOnlyLayers) {
  write("below", record(256));
  CpuBackend backend(engine());
  EXPECT_EQ(chosen(backend).config.leaves_per_item, 256);
  write("cache", record(4));
  EXPECT_EQ(chosen(backend).config.leaves_per_item, 4)
      << "read again, because the file has changed";
}

TEST_F(ChosenByRecords, AChangeOfTheFileThatKeepsItsSizeAndTimeIsNoticed) {
  write("cache", record(64));
  write("other", record(16));
  CpuBackend backend(engine());
  EXPECT_EQ(chosen(backend).config.leaves_per_item, 64);
  const std::string file = folder / "cache/tuning.jsonl";
  const std::string content = testing::content_of(folder / "other/tuning.jsonl");
  ASSERT_EQ(content.size(), testing::content_of(file).size());
  const auto time = testing::fs::last_write_time(file);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the system's clock has ticks
  testing::write_file(file, content);
  testing::fs::last_write_time(file, time);
  EXPECT_EQ(chosen(backend).config.leaves_per_item, 16);
}

TEST_F(ChosenByRecords, TheProgramsConfigIsPreferred) {
  write("cache", record(64));
  CpuBackend backend(engine());
  const KernelConfig wanted = default_kernel_config(adamw_plan(), Target::cpu());
  const Step step(backend, {{adamw_plan(), testing::tensors(1, 4096), wanted}});
  EXPECT_EQ(step.choice().config, wanted);
  EXPECT_EQ(step.choice().why, "set by the program");
}

TEST_F(ChosenByRecords, TheBackEndsProviderReplacesTheRecords) {
  write("cache", record(64));
  KernelConfig wanted = default_kernel_config(adamw_plan(), Target::cpu());
  wanted.leaves_per_item = 4;
  WorkSize asked = {};
  CpuBackend backend(engine(), {}, [&](const Plan&, const WorkSize& size) {
    asked = size;
    return ConfigChoice{.config = wanted, .why = "provided"};
  });
  const Step step(backend, {{adamw_plan(), testing::tensors(2, 4096)}});
  EXPECT_EQ(step.choice().config, wanted);
  EXPECT_EQ(step.choice().why, "provided");
  EXPECT_EQ(asked, (WorkSize{.elements = 2 * 4096, .tensors = 2}));
}

TEST_F(ChosenByRecords, DamagedLinesAreSkippedWithOneWarning) {
  write("cache", record(64));
  std::ofstream(folder / "cache/tuning.jsonl", std::ios::app) << "{\n}{\n";
  testing::WarningCollector warnings;
  CpuBackend backend(engine());
  EXPECT_EQ(chosen(backend).config.leaves_per_item, 64);
  chosen(backend);
  ASSERT_EQ(warnings.messages().size(), 1u);
  EXPECT_NE(warnings.messages()[0].find("tuning.jsonl:2: the line is not valid JSON"),
            std::string::npos)
      << warnings.messages()[0];
  EXPECT_NE(warnings.messages()[0].find("(and 1 more lines"), std::string::npos);
}

TEST_F(ChosenByRecords, AnEditedTemplateChangesTheDigestAndACommentDoesNot) {
  const std::string before = template_digest(engine(), adamw_plan(), Target::cpu());
  EXPECT_EQ(before.size(), 16u);
  EXPECT_NE(template_digest(engine(), adamw_plan("int8"), Target::cpu()), before);
  engine().templates().add("formulas/decay.cuh",
                           *engine().templates().find("formulas/decay.cuh") + "// more\n");
  EXPECT_EQ(template_digest(engine(), adamw_plan(), Target::cpu()), before);
  engine().templates().add("formulas/decay.cuh",
                           *engine().templates().find("formulas/decay.cuh") + "struct More {};\n");
  EXPECT_NE(template_digest(engine(), adamw_plan(), Target::cpu()), before);
}

TEST(ShippedRecords, AreValidAndNameValidConfigs) {
  for (const auto& [name, content] : embedded_records()) {
    const RecordFile file = parse_records(content, std::string(name));
    EXPECT_EQ(file.problems, std::vector<std::string>());
    for (const TuningRecord& record : file.records) EXPECT_TRUE(record.complete) << name;
  }
}

}  // namespace
}  // namespace jitstep::jit
