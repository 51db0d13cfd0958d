// Record files with random damage: the reader returns every line that is still a record and reports the number of every
// other line.
#include <gtest/gtest.h>

#include <random>

#include "jit/base/text.h"
#include "jit/tuning/tuned_configs.h"
#include "jit/tuning/tuning_files.h"
#include "jit/tuning/tuning_samples.h"

namespace jitstep::jit {
namespace {

using testing::abacus;
using testing::won_record;

constexpr int kFiles = 100'000;

std::string whole_file() {
  TuningRecord other = won_record({4096, 16}, abacus(8));
  other.trials.clear();
  return str_cat(to_json(other), "\n", to_json(won_record()), "\n");
}

class Damage {
 public:
  explicit Damage(std::uint64_t seed) : random_(seed) {}

  std::string operator()(std::string content) {
    for (int i = below(4); i >= 0; --i) hurt(content);
    return content;
  }

 private:
  int below(std::size_t n) {
    return static_cast<int>(std::uniform_int_distribution<std::size_t>(0, n - 1)(random_));
  }

  void hurt(std::string& content) {
    static const std::vector<std::string> odd = {"1e999",
                                                 "-1",
                                                 "18446744073709551616",
                                                 "\"\"",
                                                 "null",
                                                 "[[[[",
                                                 "{\"",
                                                 "}",
                                                 "\n",
                                                 "\\u",
                                                 std::string(1, '\0'),
                                                 "\xff",
                                                 "\"won",
                                                 "true",
                                                 ",",
                                                 "\"schema\":2",
                                                 "sm_999",
                                                 "0.0",
                                                 "-0",
                                                 "1.5"};
    const std::size_t at = below(content.size() + 1);
    const std::size_t length = std::min<std::size_t>(below(40), content.size() - at);
    switch (below(5)) {
      case 0:
        content.resize(at);
        break;
      case 1:
        content.erase(at, length);
        break;
      case 2:
        content.replace(at, std::min<std::size_t>(length, 4), odd[below(odd.size())]);
        break;
      case 3:
        content.insert(at, content.substr(below(content.size() + 1), 60));
        break;
      default:
        if (at < content.size()) content[at] = static_cast<char>(below(256));
    }
  }

  std::mt19937_64 random_;
};

TEST(TuningRecordFuzz, AHundredThousandDamagedFilesDoNotCrashTheReader) {
  const std::string whole = whole_file();
  const Plan plan = testing::adamw_plan();
  const auto digest = [](const Plan&) { return std::string("0123456789abcdef"); };
  Damage damage(1);
  int read = 0, refused = 0;
  for (int i = 0; i < kFiles; ++i) {
    const RecordFile file = parse_records(damage(whole), "f");
    read += !file.records.empty();
    refused += !file.problems.empty();
    for (const std::string& problem : file.problems) ASSERT_TRUE(problem.starts_with("f:"));
    for (const TuningRecord& record : file.records) {
      ASSERT_EQ(read_record(to_json(record)).problem, "");
      if (i % 50 != 0) continue;  // reading costs 100 times as much
      const ConfigChoice choice =
          TunedConfigs({record}, abacus(), digest).choose(plan, record.size);
      ASSERT_EQ(config_problem(plan, choice.config, Target::cpu()), std::nullopt);
    }
  }
  EXPECT_GT(read, kFiles / 10);
  EXPECT_GT(refused, kFiles / 2);
}

}  // namespace
}  // namespace jitstep::jit
