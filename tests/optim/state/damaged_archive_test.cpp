// Archives with an entry missing or replaced: load() throws, and the optimizer does not change.
#include <caffe2/serialize/inline_container.h>

#include "optim/counted_memory.h"
#include "optim/state/same_state.h"
#include "optim/training.h"

namespace jitstep::tests {
namespace {

using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

// The replacement of an entry. An empty one removes the entry.
using Damage = std::optional<c10::IValue>;

// Copies an archive. Damages the entry with the number `target`, or drops the nested archive with that number. Counts
// entries in `next`.
void copy(InputArchive& from, OutputArchive& to, int& next, int target, const Damage& damage) {
  for (const auto& key : from.keys()) {
    const bool damaged = next++ == target;
    InputArchive inner;
    c10::IValue value;
    if (damaged && damage) {
      to.write(key, *damage);
    } else if (damaged) {
      continue;
    } else if (from.try_read(key, inner)) {
      OutputArchive copied(to.compilation_unit());
      copy(inner, copied, next, target, damage);
      to.write(key, copied);
    } else if (from.try_read(key, value)) {
      to.write(key, value);
    }
  }
}

InputArchive archive_of(const Optimizer& optimizer) {
  OutputArchive out;
  optimizer.save(out);
  return reread(out);
}

std::vector<Damage> damages() {
  return {std::nullopt,
          c10::IValue(std::int64_t{-7}),
          c10::IValue(std::nan("")),
          c10::IValue("no such thing"),
          c10::IValue(torch::zeros({3}, torch::kUInt8)),
          c10::IValue(torch::zeros({1}).expand({4200})),
          c10::IValue(std::vector<std::int64_t>{1, 0, -1}),
          c10::IValue(true)};
}

template <class Rule, class RuleOptions>
void survives_every_damage(const RuleOptions& options) {
  const std::vector<std::vector<std::int64_t>> shapes = {{70, 60}, {3}};
  Tensors parameters = make_parameters(torch::kFloat32, shapes), twin = clones(parameters);
  Tensors source = clones(parameters);
  Rule saved(source, options), optimizer(parameters, options), other(twin, options);
  train(saved, source, 1, 3);
  train(optimizer, parameters, 1, 2);
  train(other, twin, 1, 2);
  InputArchive pristine = archive_of(optimizer);
  int entries = 0, rejected = 0;
  InputArchive whole = archive_of(saved);
  OutputArchive scratch;
  copy(whole, scratch, entries, -1, std::nullopt);
  for (int entry = 0; entry < entries; ++entry) {
    for (const Damage& damage : damages()) {
      OutputArchive out;
      int next = 0;
      copy(whole, out, next, entry, damage);
      InputArchive damaged = reread(out);
      try {
        optimizer.load(damaged);
        optimizer.load(pristine);  // harmless, such as a missing option: restores the optimizer
      } catch (const c10::Error& error) {
        ++rejected;
        const std::string message = error.what_without_backtrace();
        for (const char* torchs : {"INTERNAL ASSERT", "No such serialized"})
          EXPECT_EQ(message.find(torchs), std::string::npos) << message;
        expect_same_state(optimizer, other);
      }
    }
  }
  EXPECT_GT(rejected, entries);
  train(optimizer, parameters, 3, 4);
  train(other, twin, 3, 4);
  expect_equal(parameters, twin);
}

// Has shared state, auxiliary state per parameter, and auxiliary state per row.
struct WithAuxState : Optimizer {
  WithAuxState(const Tensors& parameters, const GenericOptions& options)
      : Optimizer("common_estimate", parameters, options) {}
};

TEST(DamagedArchive, AMissingOrReplacedEntryDoesNotChangeTheOptimizer) {
  survives_every_damage<AdamW>(AdamWOptions(0.01));
  survives_every_damage<AdamW>(AdamWOptions(0.01).state("int8").state("v", "int4"));
  survives_every_damage<SGD>(SGDOptions(0.01).momentum(0.9).state("int8"));
  load_rule(JITSTEP_TEST_DATA "/templates/extensions/common_estimate.cuh");
  survives_every_damage<WithAuxState>(GenericOptions(0.01).set("slow", true));
}

// A file of a few kilobytes may claim to hold a tensor of gigabytes.
TEST(DamagedArchive, EverySizeIsCheckedBeforeItIsAllocated) {
  Tensors source = make_parameters(torch::kFloat32, {{70, 60}}), parameters = clones(source);
  AdamW saved(source, AdamWOptions().state("int8")), plain(parameters);
  AdamW same(parameters, AdamWOptions().state("int8"));
  train(saved, source, 1, 1);
  InputArchive whole = archive_of(saved);
  int entries = 0;
  OutputArchive scratch;
  copy(whole, scratch, entries, -1, std::nullopt);
  const std::vector<Damage> forgeries = {
      c10::IValue(std::vector<std::int64_t>{1 << 14, 1 << 14}),
      c10::IValue(std::vector<std::int64_t>{1, std::int64_t{1} << 40}),
      c10::IValue(std::int64_t{1} << 40),
      c10::IValue(torch::zeros({1}, torch::kUInt8).expand({1 << 30})),
      c10::IValue(torch::zeros({1}).expand({1 << 14, 1 << 14}))};
  for (int entry = 0; entry < entries; ++entry)
    for (const Damage& forgery : forgeries) {
      OutputArchive out;
      int next = 0;
      copy(whole, out, next, entry, forgery);
      InputArchive damaged = reread(out);
      const CountedMemory memory;
      for (AdamW* optimizer : {&plain, &same}) try {
          optimizer->load(damaged);
        } catch (const c10::Error&) {
        }
      EXPECT_LT(memory.largest, 1u << 20) << "entry " << entry;
    }
}

// Copies an archive, with another value for every entry of that name.
void copy_with(InputArchive& from, OutputArchive& to, const std::string& name,
               const c10::IValue& other) {
  for (const auto& key : from.keys()) {
    InputArchive inner;
    c10::IValue value;
    if (from.try_read(key, inner)) {
      OutputArchive copied(to.compilation_unit());
      copy_with(inner, copied, name, other);
      to.write(key, copied);
    } else if (from.try_read(key, value)) {
      to.write(key, key == name ? other : value);
    }
  }
}

// For example, a codec may store numbers in auxiliary state that the archive lacks. They would all be 0.
TEST(DamagedArchive, ASlotUnderTheNameOfAnotherCodecNeverBecomesZeros) {
  const std::vector<std::vector<std::int64_t>> shapes = {{70, 60}, {8, 64, 5}};
  int rejected = 0;
  for (const std::string held : {"int8", "factored", "int4_rank1"}) {
    Tensors source = make_parameters(torch::kFloat32, shapes);
    AdamW saved(source, AdamWOptions().state("int8").state("v", held));
    train(saved, source, 1, 2);
    InputArchive whole = archive_of(saved);
    for (const std::string& codec : shipped(jit::Manifest::Kind::codec))
      for (const std::string& kept : {std::string("fp32"), codec}) {
        if (codec == held) continue;
        OutputArchive out;
        copy_with(whole, out, "codec_v", c10::IValue(codec));
        InputArchive hostile = reread(out);
        const Tensors parameters = clones(source);
        AdamW optimizer(parameters, AdamWOptions().state("v", kept));
        try {
          optimizer.load(hostile);
        } catch (const c10::Error&) {
          ++rejected;
          EXPECT_TRUE(optimizer.state().empty());
          continue;
        }
        for (const auto& [key, state] : optimizer.state())
          EXPECT_TRUE(static_cast<AdamWParamState&>(*state).exp_avg_sq().ne(0).any().item<bool>())
              << held << " as " << codec << " into " << kept;
      }
  }
  EXPECT_GT(rejected, 30);
}

TEST(DamagedArchive, ATruncatedFileIsRejected) {
  Tensors parameters = make_parameters(torch::kFloat32, {{70, 60}}), twin = clones(parameters);
  AdamW optimizer(parameters, AdamWOptions().state("int8")),
      other(twin, AdamWOptions().state("int8"));
  train(optimizer, parameters, 1, 2);
  train(other, twin, 1, 2);
  std::stringstream stream;
  torch::save(optimizer, stream);
  const std::string whole = stream.str();
  for (std::size_t cut = 0; cut < 100; ++cut) {
    std::stringstream part(whole.substr(0, whole.size() * cut / 100));
    EXPECT_ANY_THROW(torch::load(optimizer, part)) << cut;
  }
  train(optimizer, parameters, 3, 4);
  train(other, twin, 3, 4);
  expect_equal(parameters, twin);
}

// As Python's torch.save: the pickled object, and no constants.
TEST(DamagedArchive, ACheckpointOfPythonIsNotCalledDamaged) {
  const Tensors parameters = make_parameters();
  AdamW optimizer(parameters);
  const std::string file = own_file("python.pt", "");
  {
    caffe2::serialize::PyTorchStreamWriter writer(file);
    const std::vector<char> pickled = torch::pickle_save(torch::IValue(1));
    writer.writeRecord("data.pkl", pickled.data(), pickled.size());
    writer.writeEndOfFile();
  }
  EXPECT_HAS(argument_error([&] { optimizer.load(file); }),
             file + ": it is a checkpoint of Python");
}

TEST(DamagedArchive, AnErrorNamesTheFileAndTheCause) {
  Tensors parameters = make_parameters(), twin = clones(parameters);
  AdamW optimizer(parameters), other(twin);
  train(optimizer, parameters, 1, 2);
  train(other, twin, 1, 2);
  const std::string file = own_file("optimizer.pt", ""), none = file + "s";
  optimizer.save(file);
  const std::string whole = text_of_file(file);
  for (const std::string& damaged :
       {std::string(), std::string("no archive"), whole.substr(0, whole.size() / 2)}) {
    own_file("optimizer.pt", damaged);
    EXPECT_HAS(argument_error([&] { optimizer.load(file); }), file + ": the file is truncated");
  }
  EXPECT_HAS(argument_error([&] { optimizer.load(none); }), none + ": there is no such file");
  const std::string long_name = file + std::string(300, 'a');
  EXPECT_HAS(argument_error([&] { optimizer.load(long_name); }), "File name too long");
  EXPECT_HAS(argument_error([&] { optimizer.save_parts(long_name); }), "File name too long");
  EXPECT_HAS(argument_error([&] { optimizer.load(long_name + "/index.pt"); }),
             "File name too long");
  Tensors fewer = {parameters[0]};
  AdamW(fewer).save(file);
  const std::string message = argument_error([&] { optimizer.load(file); });
  EXPECT_HAS(message, "but this optimizer has 3");
  EXPECT_HAS(message, "loading " + file);
  train(optimizer, parameters, 3, 4);
  train(other, twin, 3, 4);
  expect_equal(parameters, twin);
}

TEST(DamagedArchive, AnErrorHasOneNotationOfShapes) {
  Tensors saved = {torch::ones({5, 7}).requires_grad_()},
          wider = {torch::ones({5, 8}).requires_grad_()};
  AdamW optimizer(saved), other(wider);
  train(optimizer, saved, 1, 2);
  const std::string file = own_file("shape.pt", "");
  optimizer.save(file);
  const std::string message = argument_error([&] { other.load(file); });
  EXPECT_HAS(message, "of shape [5, 7] and strides [7, 1], not of shape [5, 8]");
  EXPECT_HAS(message, "parameter 0 of group 0 (float32 [5, 8])");
}

TEST(DamagedArchive, StateThatTheArchiveLacksIsDropped) {
  // torch's Python classes do this too. torch's C++ classes keep the old state.
  Tensors parameters = make_parameters(torch::kFloat32, {{4}, {5}});
  AdamW saved(parameters), optimizer(parameters);
  train(optimizer, parameters, 1, 1);
  parameters[0].mutable_grad() = torch::ones({4});
  parameters[1].mutable_grad() = torch::Tensor();
  saved.step();
  copy_through_archive(saved, optimizer);
  EXPECT_EQ(optimizer.state().size(), 1u);
}

}  // namespace
}  // namespace jitstep::tests
