// Checkpoints in folders: their files, and damage to them.
#include <torch/serialize.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "optim_shard/ranks.h"
#include "support/own_folder.h"

namespace jitstep::tests {
namespace {

namespace fs = std::filesystem;

AdamWOptions options(const std::string& state = "int8") { return AdamWOptions(0.01).state(state); }

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const fs::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

class Parts : public testing::Test {
 protected:
  // An optimizer after some steps.
  std::unique_ptr<AdamW> trained(int steps, const std::string& state = "int8") {
    parameters_ = model();
    auto optimizer = std::make_unique<AdamW>(parameters_, options(state));
    for (int step = 1; step <= steps; ++step) set_gradients(parameters_, step), optimizer->step();
    return optimizer;
  }

  // The names of the folder's files, and their texts.
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::directory_iterator(folder_))
      all[entry.path().filename()] = text_of(entry.path());
    return all;
  }

  fs::path file_of_part(const std::string& part, const std::string& folder = "") const {
    for (const auto& entry : fs::directory_iterator(folder.empty() ? folder_ : folder))
      if (entry.path().filename().string().find("-" + part + "-of-") != std::string::npos)
        return entry.path();
    return {};
  }

  // The error of load(), "" for none. After an error the optimizer must be as before.
  std::string error_of_load() {
    const Tensors parameters = model();
    AdamW optimizer(parameters, options());
    set_gradients(parameters, 7);
    optimizer.step();
    const Outcome before = outcome_of(optimizer, parameters);
    try {
      optimizer.load(folder_);
      return "";
    } catch (const c10::Error& error) {
      const std::string message = error.what_without_backtrace();
      expect_equal(outcome_of(optimizer, parameters), before, "after " + message);
      return message;
    }
  }

  OwnFolder own_;
  const std::string folder_ = own_.path + "/parts";
  Tensors parameters_;
};

TEST_F(Parts, OfOneProcessLoadAsItsFile) {
  const auto optimizer = trained(2);
  optimizer->save_parts(folder_, 3);
  EXPECT_EQ(files().size(), 4u);
  for (const std::string& path : {folder_, folder_ + "/index.pt"}) {
    const Tensors parameters = model();
    {
      torch::NoGradGuard no_grad;
      for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].copy_(parameters_[i]);
    }
    AdamW other(parameters, options());
    other.load(path);
    expect_equal(outcome_of(other, parameters), outcome_of(*optimizer, parameters_), path);
  }
}

TEST_F(Parts, ReplaceThoseOfTheLastSave) {
  trained(1)->save_parts(folder_, 4);
  const auto old = files();
  write(folder_ + "/notes.txt", "mine");
  for (const char* name : {"0123456789abcdef-0-of-1.pt.99.part", "index.pt.99.part"})
    write(folder_ + "/" + name, "of a process that was killed");
  const auto optimizer = trained(2);
  optimizer->save_parts(folder_, 2);
  auto now = files();
  EXPECT_EQ(now.erase("notes.txt"), 1u);
  EXPECT_EQ(now.erase("index.pt"), 1u);
  EXPECT_EQ(now.size(), 2u);
  for (const auto& [name, text] : now) EXPECT_FALSE(old.contains(name));
  AdamW other(parameters_, options());
  other.load(folder_);
  expect_equal(outcome_of(other, parameters_), outcome_of(*optimizer, parameters_), "loaded");
}

TEST_F(Parts, AreReadOnlyByRanksThatNeedThem) {
  const std::string folders[] = {own_.path + "/0", own_.path + "/1"};
  trained(2)->save_parts(folder_, 2);
  for (int rank = 0; rank < 2; ++rank) {
    fs::copy(folder_, folders[rank]);
    fs::remove(file_of_part(std::to_string(1 - rank), folders[rank]));
  }
  for (const char* state : {"int8", "fp32"}) {
    const Tensors whole = model();
    AdamW alone(whole, options(state));
    alone.load(folder_);
    set_gradients(whole, 3), alone.step();
    const auto errors = on_ranks(2, [&](int rank, const Group& group) {
      const Tensors parameters = model();
      AdamW optimizer(parameters, options(state));
      optimizer.shard(group);
      optimizer.load(folders[rank]);
      set_gradients(parameters, 3), optimizer.step();
      expect_equal(parameters, whole, std::string("a step from loaded ") + state + ": parameter");
    });
    EXPECT_EQ(errors, no_errors(2));
  }
}

TEST_F(Parts, ThatAreMissingAreNamed) {
  trained(2)->save_parts(folder_, 3);
  const fs::path part = file_of_part("1");
  fs::rename(part, own_.path + "/elsewhere");
  EXPECT_NE(error_of_load().find(part.filename()), std::string::npos);
  fs::remove(folder_ + "/index.pt");
  EXPECT_NE(error_of_load().find("index.pt"), std::string::npos);
}

TEST_F(Parts, OfTwoSavesAreNotMixed) {
  trained(1)->save_parts(folder_, 3);
  const std::string other = text_of(file_of_part("1"));
  const auto optimizer = trained(2);
  optimizer->save_parts(folder_, 3);
  const fs::path part = file_of_part("1");
  for (const std::string& text : {other, text_of(file_of_part("2"))}) {
    write(part, text);
    EXPECT_NE(error_of_load().find(part.filename()), std::string::npos);
  }
}

TEST_F(Parts, ThatAreTruncatedAreNamed) {
  trained(2)->save_parts(folder_, 3);
  for (const fs::path& file : {file_of_part("1"), fs::path(folder_ + "/index.pt")}) {
    const std::string whole = text_of(file);
    for (int percent = 0; percent < 100; percent += 7) {
      write(file, whole.substr(0, whole.size() * static_cast<std::size_t>(percent) / 100));
      EXPECT_NE(error_of_load().find(file.filename()), std::string::npos) << percent;
    }
    write(file, whole);
  }
  EXPECT_EQ(error_of_load(), "");
}

// Replaces a text of the same length in a file.
void replace(const fs::path& file, const std::string& from, const std::string& to) {
  std::string text = text_of(file);
  const auto at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  write(file, text.replace(at, from.size(), to));
}

void expect_has(const std::string& text, const std::string& part, const std::string& what) {
  EXPECT_NE(text.find(part), std::string::npos) << what << ": " << text;
}

TEST_F(Parts, OfANewerVersionOrWithAFalseIndexAreRejected) {
  trained(2)->save_parts(folder_, 2);
  const std::string index = folder_ + "/index.pt";
  const std::string whole_index = text_of(index), whole_part = text_of(file_of_part("0"));
  replace(file_of_part("0"), "\"schema\":1", "\"schema\":9");
  EXPECT_NE(error_of_load().find("schema 9"), std::string::npos);
  write(file_of_part("0"), whole_part);
  constexpr const char* kMisfit = "its parts do not fit together";
  const struct {
    const char *from, *to, *message;
  } changes[] = {
      {"\"schema\":1", "\"schema\":9", "an index of schema 9"},
      {"\"parts\":2", "\"parts\":3", kMisfit},
      {"\"parts\":2", "\"parts\":0", "does not name its parts"},
      {"\"grain\":4096", "\"grain\":4095", kMisfit},
      {"\"grain\":4096", "\"grain\":0000", "parse_error"},
      {"\"grain\":4096", "\"grain\":9e18", kMisfit},
      {"[4096,905]", "[9e18,905]", kMisfit},
      {"[4096,905]", "[4096,904]", "5000 elements of a parameter of shape [5001]"},
      {"[4096,905]", "[4097,904]", kMisfit},
      {"[4096,905]", "[-496,905]", kMisfit},
      {"\"codes_m\":4096", "\"codes_m\":2048", "4096 bytes of 0.0/codes_m for 4096 elements"},
      {"\"codes_m\":4096", "\"codes_m\":8192", "4096 bytes of 0.0/codes_m for 4096 elements"},
      {"\"codes_m\":4096", "\"codes_x\":4096", "5001 bytes of codes"},
  };
  for (const auto& [from, to, message] : changes) {
    replace(index, from, to);
    expect_has(error_of_load(), message, to);
    write(index, whole_index);
  }
  std::string elsewhere = whole_index;  // a path in place of the name of the save
  elsewhere[elsewhere.find("\"save\":\"") + 8] = '/';
  write(index, elsewhere);
  expect_has(error_of_load(), "does not name its parts", "a path");
  write(index, whole_index);
  EXPECT_EQ(error_of_load(), "");
}

TEST_F(Parts, CannotBeLoadedFromTheIndexAlone) {
  trained(2)->save_parts(folder_, 2);
  AdamW optimizer(model(), options());
  EXPECT_THROW(torch::load(optimizer, folder_ + "/index.pt"), c10::Error);
  fs::rename(folder_ + "/index.pt", own_.path + "/index.pt");
  EXPECT_THROW(optimizer.load(own_.path + "/index.pt"), c10::Error);
  EXPECT_TRUE(optimizer.state().empty());
}

std::string error_of_save(const AdamW& optimizer, const std::string& folder, int parts) {
  try {
    optimizer.save_parts(folder, parts);
    return "";
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
}

TEST_F(Parts, CannotBeWrittenOverAFileOrInWrongNumbers) {
  const auto optimizer = trained(1);
  const std::string other = own_.path + "/new";
  write(folder_, "mine");
  expect_has(error_of_save(*optimizer, folder_, 0), "saved to the folder " + folder_, "a file");
  EXPECT_EQ(text_of(folder_), "mine");
  expect_has(error_of_save(*optimizer, other, -1), "cannot write -1 parts", "too few");
  const int most = 1 << 20;
  expect_has(error_of_save(*optimizer, other, most + 1), "cannot write 1048577 parts", "too many");
  EXPECT_FALSE(fs::exists(other));
  const auto errors = on_ranks(2, [&](int, const Group& group) {
    AdamW shared(model(), options());
    shared.shard(group);
    expect_has(error_of_save(shared, other, 3), "cannot write 3 parts: there is one for each of",
               "of ranks");
  });
  EXPECT_EQ(errors, no_errors(2));
  EXPECT_FALSE(fs::exists(own_.path + "/new"));
}

}  // namespace
}  // namespace jitstep::tests
