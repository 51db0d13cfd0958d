#include "tuning/report_page.h"

#include <gtest/gtest.h>

#include "tuning/fake_device.h"

namespace jitstep::tuning {
namespace {

Tuned sample() {
  jit::TuningRecord record = jit::testing::won_record();
  record.hardware.name = "Abacus <3000> & sons";
  jit::Trial second = record.trials[0];
  second.config.unroll = 0;
  second.times.ratio = 0.9;
  record.trials.push_back(second);
  return {testing::adamw_workload(1 << 20), record};
}

int count(const std::string& page, const std::string& what) {
  int found = 0;
  for (std::size_t at = page.find(what); at != page.npos; at = page.find(what, at + 1)) ++found;
  return found;
}

TEST(ReportPage, ShowsEveryTrialTheWinnerTheSecondAndTheLimit) {
  const std::string page = report_page({sample()}, {28.0 * (1 << 20)});
  EXPECT_EQ(count(page, "<circle"), 2);
  EXPECT_EQ(count(page, "<circle class=\"winner\""), 1);
  EXPECT_EQ(count(page, "<circle class=\"second\""), 1);
  EXPECT_EQ(count(page, "class=\"limit\""), 1);
  EXPECT_NE(page.find("does not compile: no room"), std::string::npos);
  EXPECT_NE(page.find("won: 1.250 times as fast as the default"), std::string::npos);
  EXPECT_NE(page.find("The default reaches 47 % of the 20.0 GB/s"), std::string::npos) << page;
}

TEST(ReportPage, IsSelfContainedAndEscapesText) {
  const std::string page = report_page({sample()}, {1});
  for (const char* outside : {"http:", "https:", "src=", "<script", "url(", "@import"})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  EXPECT_NE(page.find("Abacus &lt;3000&gt; &amp; sons"), std::string::npos);
  EXPECT_EQ(count(page, "<svg"), count(page, "</svg>"));
}

TEST(ReportPage, ClipsWideIntervalsOfFewRounds) {
  Tuned wide = sample();
  wide.record.trials[0].times.spread = 16;
  const std::string page = report_page({wide}, {1});
  EXPECT_NE(page.find(">0.50</text>"), std::string::npos) << page;
  EXPECT_NE(page.find(">2.00</text>"), std::string::npos) << page;
}

TEST(ReportPage, ReportsWhatWasNotMeasured) {
  Tuned failed = sample();
  failed.problem = "too much scratch";
  const std::string page = report_page({failed}, {1});
  EXPECT_NE(page.find("<p>too much scratch</p>"), std::string::npos);
  EXPECT_EQ(page.find("<svg"), std::string::npos);
}

}  // namespace
}  // namespace jitstep::tuning
