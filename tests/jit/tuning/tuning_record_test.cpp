#include "jit/tuning/tuning_record.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "jit/fixtures.h"
#include "jit/tuning/tuning_samples.h"

namespace jitstep::jit {
namespace {

using nlohmann::json;
using testing::won_record;

std::string problem_of(const json& line) { return read_record(line.dump()).problem; }

json sample() { return json::parse(to_json(won_record())); }

TEST(TuningRecord, IsReadBackAsItWasWritten) {
  for (const TuningRecord& record : testing::records_of_all_kinds()) {
    const RecordLine read = read_record(to_json(record));
    ASSERT_TRUE(read.record) << read.problem;
    EXPECT_EQ(*read.record, record);
    EXPECT_EQ(to_json(record).find('\n'), std::string::npos);
  }
}

TEST(TuningRecord, NumbersAreWrittenWithSixDigits) {
  TuningRecord record = won_record();
  record.gain = 1.0 / 3;
  record.trials[0].times.seconds = 1.23456789e-5;
  record.hardware.bandwidth = 67612634567.0;
  const json line = json::parse(to_json(record));
  EXPECT_EQ(line.at("gain"), 0.333333);
  EXPECT_EQ(line.at("trials")[0].at("seconds"), 1.23457e-5);
  EXPECT_EQ(line.at("hardware").at("bandwidth"), 67612600000.0);
}

TEST(TuningRecord, EveryMissingFieldIsNamed) {
  const json valid = sample();
  for (const auto& [name, value] : valid.items()) {
    json line = valid;
    line.erase(name);
    EXPECT_EQ(problem_of(line), name + " is missing");
  }
  for (const char* part : {"hardware", "versions"})
    for (const auto& [name, value] : valid.at(part).items()) {
      json line = valid;
      line.at(part).erase(name);
      EXPECT_EQ(problem_of(line), std::string(part) + "." + name + " is missing");
    }
}

TEST(TuningRecord, ErrorsNameTheFieldByItsPath) {
  const auto with = [](const char* pointer, const json& value) {
    json line = sample();
    line[json::json_pointer(pointer)] = value;
    return problem_of(line);
  };
  EXPECT_EQ(with("/hardware/units", 0), "hardware.units is 0, less than 1");
  EXPECT_EQ(with("/hardware/units", "four"), "hardware.units is \"four\", not of type integer");
  EXPECT_EQ(with("/outcome", "lost"),
            "outcome is \"lost\", not one of \"won\", \"default\", \"unresolved\"");
  EXPECT_EQ(with("/trials/1/configuration/tile_lanes", 64),
            "trials[1].configuration.tile_lanes is 64, more than 32");
  EXPECT_EQ(with("/trials/0/colour", 1), "trials[0].\"colour\" is unknown");
  EXPECT_EQ(with("/spec", ""), "spec is \"\", shorter than 1");
  EXPECT_EQ(with("/schema", 0), "schema is 0, less than 1");
  EXPECT_EQ(with("/hardware/target", "gpu"),
            "hardware.target: 'gpu' is not a target. Use cpu, emulated or sm_ with a number, such "
            "as sm_90.");
  EXPECT_EQ(with("/gain", nullptr), "gain is null, not of type number");
  EXPECT_EQ(with("/elements", std::uint64_t(-1)),
            "elements is 18446744073709551615, more than 281474976710656");
  EXPECT_EQ(with("/hardware", json::array()), "hardware is [], not of type object");
  EXPECT_EQ(with("/trials", 1), "trials is 1, not of type array");
  EXPECT_EQ(with("/trials/0", "fast"), "trials[0] is \"fast\", not of type object");
}

TEST(TuningRecord, ANewerSchemaIsRecognized) {
  const RecordLine read = read_record(R"({"schema": 2, "anything": []})");
  EXPECT_TRUE(read.newer);
  EXPECT_FALSE(read.record);
  EXPECT_NE(read.problem.find("newer than 1. Update jitstep"), std::string::npos) << read.problem;
}

TEST(TuningRecord, TextThatIsNotJsonIsNotARecord) {
  const std::string valid = to_json(won_record());
  for (const std::string& line :
       {std::string(), std::string("[]"), std::string("null"), valid.substr(0, valid.size() - 1),
        valid + "}", std::string(100000, '['), "{\"schema\": " + std::string(100000, '[')}) {
    const RecordLine read = read_record(line);
    EXPECT_FALSE(read.record);
    EXPECT_FALSE(read.newer);
    EXPECT_FALSE(read.problem.empty());
  }
}

TEST(TuningRecord, ReplacesOnlyTheRecordOfTheSameKernelAndEnvironment) {
  const TuningRecord base = won_record();
  TuningRecord later = base;
  later.outcome = Outcome::default_config;
  later.date = "2027-01-01";
  later.hardware.name = "another name";
  EXPECT_TRUE(later.replaces(base));
  const auto other = [&](const auto& change) {
    TuningRecord changed = base;
    change(changed);
    return changed.replaces(base);
  };
  EXPECT_FALSE(other([](TuningRecord& r) { r.spec += "x"; }));
  EXPECT_FALSE(other([](TuningRecord& r) { ++r.size.elements; }));
  EXPECT_FALSE(other([](TuningRecord& r) { ++r.size.tensors; }));
  EXPECT_FALSE(other([](TuningRecord& r) { ++r.hardware.units; }));
  EXPECT_FALSE(other([](TuningRecord& r) { r.versions.templates = "other"; }));
  EXPECT_FALSE(other([](TuningRecord& r) { r.versions.compiler = "clang"; }));
}

// record_schema_test.py runs the next two, and compares their output with the schema.
TEST(RecordSchema, DISABLED_PrintsRecordsOfAllKinds) {
  for (const TuningRecord& record : testing::records_of_all_kinds())
    std::cout << "record: " << to_json(record) << "\n";
}

TEST(RecordSchema, DISABLED_PrintsTheProblemOfEachLineOfItsInput) {
  for (std::string line; std::getline(std::cin, line);)
    std::cout << "problem: " << read_record(line).problem << "\n";
}

}  // namespace
}  // namespace jitstep::jit
