#include "optim/state/archive.h"

#include <torch/nn.h>

#include "optim/training.h"

namespace jitstep::tests {
namespace {

const std::vector<std::vector<std::int64_t>> kShapes = {{70, 60}, {3}, {}};

// Trains half of the steps in one optimizer, saves it, and trains the other half in another one.
template <class Optimizer, class Options>
void resumes_bit_for_bit(const Options& options, torch::Dtype dtype = torch::kFloat32) {
  Tensors straight = make_parameters(dtype, kShapes), broken = clones(straight);
  Optimizer whole(straight, options);
  train(whole, straight, 1, 6);
  Optimizer first(broken, options);
  train(first, broken, 1, 3);
  Optimizer second(broken, Options(0.7).state("fp32"));
  second.param_groups()[0].set_options(std::make_unique<Options>(options));
  copy_through_archive(first, second);
  train(second, broken, 4, 6);
  expect_equal(straight, broken);
}

TEST(Archive, TrainingContinuesBitForBit) {
  resumes_bit_for_bit<AdamW>(AdamWOptions(0.01).amsgrad(true));
  resumes_bit_for_bit<AdamW>(AdamWOptions(0.01), torch::kFloat64);
  resumes_bit_for_bit<AdamW>(AdamWOptions(0.01).state("int8"));
  resumes_bit_for_bit<AdamW>(AdamWOptions(0.01).state("int4").state("v", "bf16"));
  resumes_bit_for_bit<SGD>(SGDOptions(0.01).momentum(0.9));
  resumes_bit_for_bit<LAMB>(LAMBOptions(0.01).state("int8"));
  resumes_bit_for_bit<AdamW>(AdamWOptions(0.01).weights("stochastic").seed(9), torch::kBFloat16);
}

// Strides of dimensions of size 1 do not order elements, so that codes need not be made again.
TEST(Archive, CodesStayIfOnlyMeaninglessStridesDiffer) {
  for (const char* const state : {"int8", "int4", "int4_rank1"}) {
    const auto options = AdamWOptions(0.01).state(state).min_quantized_size(0);
    const torch::Tensor values = torch::randn({16, 64, 1, 1});
    Tensors ours = {values.contiguous(torch::MemoryFormat::ChannelsLast).requires_grad_()};
    ours[0].set_data(torch::empty_strided({16, 64, 1, 1}, {64, 1, 64, 64}).copy_(values));
    Tensors theirs = {torch::empty_strided({16, 64, 1, 1}, {64, 1, 1, 1}).requires_grad_()};
    AdamW first(ours, options), second(theirs, options);
    train(first, ours, 1, 3);
    theirs[0].set_data(torch::empty_strided({16, 64, 1, 1}, {64, 1, 1, 1}).copy_(ours[0].detach()));
    ASSERT_NE(ours[0].strides(), theirs[0].strides());
    copy_through_archive(first, second);
    train(first, ours, 4, 5);
    train(second, theirs, 4, 5);
    expect_equal(ours, theirs);
  }
}

TEST(Archive, TypedStateAndOptionsAreRestored) {
  Tensors parameters = make_parameters();
  const AdamWOptions options = AdamWOptions(0.1).amsgrad(true).betas({0.7, 0.8});
  AdamW first(parameters, options), second(parameters, options);
  train(first, parameters, 1, 2);
  copy_through_archive(first, second);
  EXPECT_EQ(second.state().size(), first.state().size());
  for (const auto& [key, state] : first.state())
    EXPECT_TRUE(static_cast<AdamWParamState&>(*state) ==
                static_cast<AdamWParamState&>(*second.state().at(key)));
  EXPECT_TRUE(static_cast<AdamWOptions&>(first.param_groups()[0].options()) ==
              static_cast<AdamWOptions&>(second.param_groups()[0].options()));
}

TEST(Archive, StateInAnotherCodecIsConverted) {
  Tensors parameters = make_parameters(torch::kFloat32, kShapes);
  AdamW int8(parameters, AdamWOptions().state("int8"));
  train(int8, parameters, 1, 3);
  AdamW fp32(parameters, AdamWOptions());
  Warnings warnings;
  copy_through_archive(int8, fp32);
  EXPECT_EQ(
      warnings.all,
      "jitstep: the checkpoint's formats differ from this optimizer's. State was converted: "
      "m from int8(block=256, positive_floor=true, signed_scale=false, stochastic=false) to fp32, "
      "v from int8(block=256, positive_floor=true, signed_scale=false, stochastic=false) to fp32 "
      "(1 parameter).\n")
      << "the two parameters that are too small for int8 are fp32 in both";
  const auto key = parameters[0].unsafeGetTensorImpl();
  const auto& coded = static_cast<AdamWParamState&>(*int8.state()[key]);
  const auto& wide = static_cast<AdamWParamState&>(*fp32.state()[key]);
  EXPECT_TRUE(torch::equal(coded.exp_avg(), wide.exp_avg()));
  EXPECT_TRUE(torch::equal(coded.exp_avg_sq(), wide.exp_avg_sq()));
  EXPECT_EQ(wide.step(), 3);
  AdamW back(parameters, AdamWOptions().state("int8"));
  copy_through_archive(fp32, back);
  const auto& again = static_cast<AdamWParamState&>(*back.state()[key]);
  // The codes may differ: the signed table has no -1, so that a block's scale may shrink.
  EXPECT_LT((again.exp_avg() - coded.exp_avg()).abs().max().item<double>(),
            0.01 * coded.exp_avg().abs().max().item<double>());
  EXPECT_EQ(again.codes("m").scalar_type(), torch::kUInt8);
}

TEST(Archive, StateInTheSameCodecsIsLoadedWithoutAWarning) {
  Tensors parameters = make_parameters(torch::kFloat32, kShapes);
  const AdamWOptions options = AdamWOptions().state("int8").state("v", "bf16");
  AdamW first(parameters, options), second(parameters, options);
  train(first, parameters, 1, 2);
  Warnings warnings;
  copy_through_archive(first, second);
  EXPECT_EQ(warnings.all, "");
}

TEST(Archive, AParameterInAnotherLayoutGetsItsStateInThatLayout) {
  Tensors parameters = make_parameters(torch::kFloat32, {{70, 60}});
  AdamW first(parameters, AdamWOptions().state("int8"));
  train(first, parameters, 1, 2);
  const Tensors transposed = {parameters[0].detach().t().contiguous().t().set_requires_grad(true)};
  AdamW second(transposed, AdamWOptions().state("int8"));
  copy_through_archive(first, second);
  const auto a = static_cast<AdamWParamState&>(*first.state().begin()->second).exp_avg();
  const auto b = static_cast<AdamWParamState&>(*second.state().begin()->second).exp_avg();
  EXPECT_LT((a - b).abs().max().item<double>(), 0.02 * a.abs().max().item<double>());
}

TEST(Archive, SeedAndTensorIdsAreRestored) {
  Tensors parameters = make_parameters();
  AdamW first({OptimizerParamGroup({parameters[1]})}, AdamWOptions().seed(77));
  train(first, parameters, 1, 1);
  AdamW second({OptimizerParamGroup({parameters[0]})}, AdamWOptions());
  second.add_param_group(OptimizerParamGroup({parameters[1]}));
  second.param_groups().erase(second.param_groups().begin());
  copy_through_archive(first, second);
  EXPECT_EQ(static_cast<AdamWOptions&>(second.param_groups()[0].options()).seed(), 77u);
  EXPECT_EQ(static_cast<ParamState&>(*second.state().begin()->second).id(), 0);
}

TEST(Archive, AParameterWithoutStateGetsANewIdIfALoadedOneHasIts) {
  Tensors saved = make_parameters(torch::kBFloat16, {{300}, {300}});
  AdamW first({saved[1]}, AdamWOptions());
  first.add_parameters({saved[0]});
  std::swap(first.param_groups()[0].params()[0], first.param_groups()[0].params()[1]);
  set_gradients({saved[0]}, 1);
  first.step();  // only saved[0], which has the id 1
  Tensors loaded = clones(saved);
  AdamW second(loaded, AdamWOptions().weights("stochastic"));
  copy_through_archive(first, second);
  train(second, loaded, 2, 2);
  const auto id_of = [&](const torch::Tensor& p) {
    return static_cast<ParamState&>(*second.state().at(p.unsafeGetTensorImpl())).id();
  };
  EXPECT_EQ(id_of(loaded[0]), 1);
  EXPECT_NE(id_of(loaded[1]), 1) << "two parameters would use the same random bits";
}

TEST(Archive, TheOptimizersFormatsStay) {
  Tensors source = make_parameters(torch::kFloat32, kShapes), parameters = clones(source);
  AdamW first(source, AdamWOptions(0.25).state("bf16").min_quantized_size(100000).seed(5));
  train(first, source, 1, 2);
  AdamW second(parameters,
               AdamWOptions(0.1).state("int8").state("v", "int4").min_quantized_size(1));
  copy_through_archive(first, second);
  const auto& options = static_cast<AdamWOptions&>(second.param_groups()[0].options());
  EXPECT_EQ(options.lr(), 0.25);
  EXPECT_EQ(options.formats().state->name, "int8");
  EXPECT_EQ(options.formats().slots.at("v").name, "int4");
  EXPECT_EQ(options.formats().min_quantized_size, 1);
  EXPECT_EQ(options.seed(), 5u);
  train(second, parameters, 3, 3);
  auto& state =
      static_cast<AdamWParamState&>(*second.state().at(parameters[1].unsafeGetTensorImpl()));
  EXPECT_EQ(state.codes("m").nbytes(), 3u) << "int8, although there are only 3 elements";
  EXPECT_EQ(state.codes("v").nbytes(), 2u) << "int4";
}

// The state's tensors hold zeros before the first step. That step reads the initial values from the options.
TEST(Archive, StateBeforeItsFirstStepIsLoaded) {
  const AdagradOptions options = AdagradOptions(0.1).initial_accumulator_value(0.3);
  const Tensors saved = make_parameters(torch::kFloat32, {{30}}), loaded = clones(saved),
                fresh = clones(saved);
  Adagrad first(saved, options), second(loaded, options), other(fresh, options);
  train(first, saved, 1, 1);
  auto& state = static_cast<AdagradParamState&>(*first.state().begin()->second);
  state.step(0);
  state.sum(torch::zeros({30}));
  copy_through_archive(first, second);
  train(second, loaded, 1, 2);
  train(other, fresh, 1, 2);
  expect_equal(loaded, fresh);
}

TEST(Archive, AParameterListedTwiceIsSavedAndLoadedOnce) {
  Tensors parameters = make_parameters(torch::kFloat32, {{30}, {20}}),
          straight = clones(parameters);
  const auto twice = [](const Tensors& p) { return Tensors{p[0], p[1], p[0]}; };
  AdamW first(twice(parameters)), whole(straight);
  train(first, parameters, 1, 2);
  AdamW second(twice(parameters));
  copy_through_archive(first, second);
  train(second, parameters, 3, 4);
  train(whole, straight, 1, 4);
  expect_equal(parameters, straight);
}

// ---- torch's archives from before version 1.5 ----

void write_tensors(torch::serialize::OutputArchive& archive, const std::string& key,
                   const Tensors& tensors) {
  archive.write(key + "/size", torch::tensor(static_cast<std::int64_t>(tensors.size())));
  for (std::size_t i = 0; i < tensors.size(); ++i)
    archive.write(key + "/" + std::to_string(i), tensors[i], true);
}

// Returns the warnings.
template <class Optimizer>
std::string load(Optimizer& optimizer, torch::serialize::OutputArchive& archive) {
  torch::serialize::InputArchive in = reread(archive);
  Warnings warnings;
  optimizer.load(in);
  return warnings.all;
}

TEST(Archive, AdamsOldFormatIsRead) {
  Tensors parameters = make_parameters();
  parameters.push_back(torch::randn({2, 3}));  // never trained, so it has no buffers
  Adam first(parameters, AdamOptions().amsgrad(true)),
      second(parameters, AdamOptions().amsgrad(true));
  for (int step = 1; step <= 2; ++step) {
    set_gradients({parameters[0], parameters[1], parameters[2]}, step);
    first.step();
  }
  Tensors steps, m, v, vmax;
  for (int i = 0; i < 3; ++i) {
    const auto& state = static_cast<AdamParamState&>(
        *first.state()[parameters[static_cast<std::size_t>(i)].unsafeGetTensorImpl()]);
    steps.push_back(torch::tensor(state.step()));
    m.push_back(state.exp_avg());
    v.push_back(state.exp_avg_sq());
    vmax.push_back(state.max_exp_avg_sq());
  }
  torch::serialize::OutputArchive archive;
  write_tensors(archive, "step_buffers", steps);
  write_tensors(archive, "exp_average_buffers", m);
  write_tensors(archive, "exp_average_sq_buffers", v);
  write_tensors(archive, "max_exp_average_sq_buffers", vmax);
  EXPECT_HAS(load(second, archive), "adam optimizer is still using the old serialization format");
  ASSERT_EQ(second.state().size(), first.state().size());
  for (const auto& [key, state] : first.state())
    EXPECT_TRUE(static_cast<AdamParamState&>(*state) ==
                static_cast<AdamParamState&>(*second.state().at(key)));
}

// Before torch 1.5, the buffers of a parameter that comes before a trained one had zeros.
TEST(Archive, AdamsOldFormatHasNoStateOfParametersThatWereNotTrained) {
  Tensors ours = make_parameters(), theirs = clones(ours);
  Adam fresh(theirs);
  set_gradients({theirs[1]}, 1);
  fresh.step();
  ours[1].detach().copy_(theirs[1].detach());
  Tensors steps, m, v;
  for (std::size_t i = 0; i < 2; ++i) {
    steps.push_back(torch::tensor(static_cast<std::int64_t>(i)));
    const bool trained = i == 1;
    m.push_back(trained ? state_of<AdamParamState>(fresh, theirs[1]).exp_avg()
                        : torch::zeros_like(ours[0].detach()));
    v.push_back(trained ? state_of<AdamParamState>(fresh, theirs[1]).exp_avg_sq()
                        : torch::zeros_like(ours[0].detach()));
  }
  torch::serialize::OutputArchive archive;
  write_tensors(archive, "step_buffers", steps);
  write_tensors(archive, "exp_average_buffers", m);
  write_tensors(archive, "exp_average_sq_buffers", v);
  Adam loaded(ours);
  load(loaded, archive);
  train(loaded, ours, 2, 3);
  train(fresh, theirs, 2, 3);
  expect_equal(ours, theirs);
  Adagrad other(ours);
  EXPECT_THROW(load(other, archive), c10::Error);
}

TEST(Archive, SgdsOldAndCurrentFormatsAreRead) {
  Tensors parameters = make_parameters();
  SGD first(parameters, SGDOptions(0.1).momentum(0.9)),
      second(parameters, SGDOptions(0.1).momentum(0.9));
  train(first, parameters, 1, 1);
  Tensors buffers;
  for (const auto& p : parameters)
    buffers.push_back(
        static_cast<SGDParamState&>(*first.state()[p.unsafeGetTensorImpl()]).momentum_buffer());
  torch::serialize::OutputArchive archive;
  write_tensors(archive, "momentum_buffers", buffers);
  archive.write("iteration_", c10::IValue(std::int64_t{0}));
  EXPECT_HAS(load(second, archive), "sgd optimizer is still using the old serialization format");
  for (const auto& [key, state] : first.state())
    EXPECT_TRUE(static_cast<SGDParamState&>(*state) ==
                static_cast<SGDParamState&>(*second.state().at(key)));
  torch::serialize::OutputArchive current;
  first.save(current);
  EXPECT_EQ(load(second, current), "") << "no warning about the current format";
}

// ---- a load that fails changes nothing ----

template <class From, class To>
std::string loading_error(From& from, To& to) {
  const std::size_t states = to.state().size();
  const double lr = to.param_groups()[0].options().get_lr();
  const std::string message = argument_error([&] { copy_through_archive(from, to); });
  EXPECT_EQ(to.state().size(), states);
  EXPECT_EQ(to.param_groups()[0].options().get_lr(), lr);
  return message;
}

// A program may write to the table of states.
TEST(Archive, StatesOfOtherOptimizersAreNotSaved) {
  const Tensors parameters = make_parameters();
  AdamW optimizer(parameters);
  auto& states = optimizer.state();
  states[parameters[0].unsafeGetTensorImpl()] = nullptr;
  torch::serialize::OutputArchive archive, other;
  EXPECT_NO_THROW(optimizer.save(archive));
  states[parameters[0].unsafeGetTensorImpl()] = std::make_unique<torch::optim::AdamWParamState>();
  EXPECT_HAS(argument_error([&] { optimizer.save(other); }), "another optimizer");
}

TEST(Archive, AFileWithoutAnOptimizerChangesNothing) {
  std::ostringstream model, nothing;
  torch::save(torch::nn::Linear(3, 4), model);
  torch::serialize::OutputArchive().save_to(nothing);
  for (const std::string& content : {model.str(), nothing.str()}) {
    Tensors params = make_parameters(torch::kFloat32, kShapes);
    SGD optimizer(params, SGDOptions(0.1).momentum(0.9));
    train(optimizer, params, 1, 2);
    std::istringstream stream(content);
    torch::serialize::InputArchive archive;
    archive.load_from(stream);
    EXPECT_THROW(optimizer.load(archive), c10::Error);
    EXPECT_EQ(optimizer.state().size(), params.size());
  }
}

TEST(Archive, StateOfAnotherRuleIsRejected) {
  Tensors parameters = make_parameters();
  Adam adam(parameters, 0.1);
  AdamW adamw(parameters);
  train(adam, parameters, 1, 1);
  EXPECT_HAS(loading_error(adam, adamw), "has state of the rule adam");
}

TEST(Archive, OtherGroupsAndShapesAreRejected) {
  Tensors parameters = make_parameters(), others = make_parameters(torch::kFloat32, {{4}, {3}, {}});
  AdamW whole(parameters, 0.1), part({parameters[0]}, AdamWOptions()), other(others);
  AdamW two({OptimizerParamGroup({parameters[0]}), OptimizerParamGroup({parameters[1]})});
  train(whole, parameters, 1, 1);
  EXPECT_HAS(loading_error(whole, part),
             "saved with 3 parameters in parameter group 0, but this optimizer has 1");
  EXPECT_HAS(loading_error(whole, two), "saved with 1 parameter group, but this optimizer has 2");
  AdamW other_way({OptimizerParamGroup({parameters[0]}), OptimizerParamGroup({parameters[2]}),
                   OptimizerParamGroup({parameters[1]})}),
      last_is_larger({OptimizerParamGroup({parameters[0]}), OptimizerParamGroup(Tensors{}),
                      OptimizerParamGroup({parameters[1], parameters[2]})});
  EXPECT_HAS(loading_error(other_way, last_is_larger),
             "with 1 parameter in parameter group 1, but this optimizer has 0");
  EXPECT_HAS(loading_error(whole, other), "shape");
}

// An archive of one parameter with these schema numbers: of the optimizer, and of the parameter's state.
torch::serialize::OutputArchive archive_of_schema(std::int64_t whole, std::int64_t of_state) {
  using torch::serialize::OutputArchive;
  OutputArchive archive;
  const auto unit = archive.compilation_unit();
  OutputArchive ours(unit), states(unit), state(unit), formats(unit);
  OutputArchive groups(unit), group(unit), options(unit);
  archive.write("pytorch_version", c10::IValue("1.5.0"));
  ours.write("schema", c10::IValue(whole));
  ours.write("rule", c10::IValue("adamw"));
  archive.write("jitstep", ours);
  formats.write("schema", c10::IValue(of_state));
  state.write("jitstep", formats);
  states.write("1", state);
  archive.write("state", states);
  groups.write("param_groups/size", torch::tensor(std::int64_t{1}));
  group.write("params/size", torch::tensor(std::int64_t{1}));
  group.write("params/0", c10::IValue("1"));
  group.write("options", options);
  groups.write("param_groups/0", group);
  archive.write("param_groups", groups);
  return archive;
}

TEST(Archive, AFileOfANewerVersionIsRejected) {
  AdamW optimizer({make_parameters()[0]}, AdamWOptions());
  const auto error_of_loading = [&](torch::serialize::OutputArchive&& archive) {
    return argument_error([&] { load(optimizer, archive); });
  };
  EXPECT_HAS(error_of_loading(archive_of_schema(1000, 2)),
             "the checkpoint has schema 1000, but this version of jitstep reads at most 2");
  EXPECT_HAS(error_of_loading(archive_of_schema(1, 1000)),
             "state of schema 1000, but this version of jitstep reads at most 2");
  torch::serialize::OutputArchive torchs;
  torchs.write("pytorch_version", c10::IValue("9.9.0"));
  EXPECT_HAS(error_of_loading(std::move(torchs)),
             "the checkpoint has torch's layout of version 9.9.0");
}

}  // namespace
}  // namespace jitstep::tests
