// Wrong use of gradients that ranks reduce in backward(). All ranks throw, nothing has changed, and training can go on.
#include "optim_shard/own_gradients.h"

namespace jitstep::tests {
namespace {

using Work = std::function<void(int rank, AdamW& optimizer, const Tensors& parameters)>;

void step(int rank, AdamW& optimizer, const Tensors& parameters, int number) {
  loss_of(parameters, number, rank).backward();
  optimizer.step();
}

// Three ranks take a step, do `work`, and take another one, which must equal that of optimizers without `work`.
std::vector<std::string> errors_around(const Work& work, std::int64_t micro_batches = 1) {
  return on_ranks(
      3,
      [&](int rank, const Group& group) {
        const auto train = [&](const Work& between) {
          Tensors parameters = model();
          AdamW optimizer(parameters, AdamWOptions(0.01).max_grad_norm(0.5));
          optimizer.shard(group, own_gradients().micro_batches(micro_batches));
          step(rank, optimizer, parameters, 1);
          if (between) between(rank, optimizer, parameters);
          step(rank, optimizer, parameters, 2);
          return parameters;
        };
        expect_equal(train(work), train({}), "parameter");
      },
      std::chrono::seconds(20));
}

// The error of a step that must throw.
std::string error_of_step(AdamW& optimizer) {
  try {
    optimizer.step();
  } catch (const c10::Error& error) {
    return error.what();
  }
  return "";
}

TEST(ReductionFaults, ABackwardTooMany) {
  EXPECT_EQ(errors_around([](int rank, AdamW& optimizer, const Tensors& parameters) {
              const Tensors before = {parameters[0].detach().clone()};
              loss_of(parameters, 3, rank).backward();
              EXPECT_THROW(loss_of(parameters, 4, rank).backward(), c10::Error);
              for (const torch::Tensor& p : parameters) EXPECT_FALSE(p.grad().defined());
              optimizer.set_found_inf(torch::ones({}));  // skips the step
              optimizer.step();
              optimizer.set_found_inf({});
              EXPECT_TRUE(torch::equal(parameters[0], before[0]));
            }),
            no_errors(3));
}

TEST(ReductionFaults, FewerMicroBatchesOnARank) {
  EXPECT_EQ(errors_around(
                [](int rank, AdamW& optimizer, const Tensors& parameters) {
                  loss_of(parameters, 3, rank).backward();
                  if (rank != 1) loss_of(parameters, 4, rank).backward();
                  EXPECT_NE(error_of_step(optimizer).find("rank 1"), std::string::npos);
                },
                2),
            no_errors(3));
}

// Throws in backward(), after other gradients were computed.
struct Failure : torch::autograd::Function<Failure> {
  static torch::Tensor forward(torch::autograd::AutogradContext*, const torch::Tensor& x) {
    return x.clone();
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext*,
                                               const torch::autograd::tensor_list&) {
    TORCH_CHECK(false, "no gradient");
  }
};

TEST(ReductionFaults, ABackwardThatFailsOnARank) {
  EXPECT_EQ(errors_around([](int rank, AdamW& optimizer, const Tensors& parameters) {
              torch::Tensor loss = loss_of({parameters.begin() + 4, parameters.end()}, 3, rank);
              if (rank == 1) {
                // The newest functions run first, so the failure is last.
                loss = Failure::apply(parameters[0]).sum();
                loss = loss + loss_of(parameters, 3, rank);
                EXPECT_THROW(loss.backward(), c10::Error);
                EXPECT_THROW(loss_of(parameters, 4, rank).backward(), c10::Error);
              } else {
                loss.backward();
              }
              const std::string error = error_of_step(optimizer);
              EXPECT_NE(error.find(rank == 1 ? "backward" : "rank 1 failed"), std::string::npos)
                  << error;
            }),
            no_errors(3));
}

TEST(ReductionFaults, AClosureThatThrowsOnARank) {
  EXPECT_EQ(errors_around([](int rank, AdamW& optimizer, const Tensors& parameters) {
              const auto closure = [&]() -> torch::Tensor {
                TORCH_CHECK(rank != 1, "no loss");
                const torch::Tensor loss = loss_of(parameters, 3, rank);
                loss.backward();
                return loss;
              };
              EXPECT_THROW(optimizer.step(closure), c10::Error);
            }),
            no_errors(3));
}

TEST(ReductionFaults, AStepAfterDroppedGradientsIsAnError) {
  EXPECT_EQ(errors_around([](int rank, AdamW& optimizer, const Tensors& parameters) {
              loss_of(parameters, 3, rank).backward();
              const auto closure = [&]() -> torch::Tensor {
                TORCH_CHECK(rank != 1, "no loss");
                return torch::zeros({});
              };
              EXPECT_THROW(optimizer.step(closure), c10::Error);
              for (int i = 0; i < 2; ++i) {
                const std::string error = error_of_step(optimizer);
                EXPECT_NE(error.find("Call backward() again"), std::string::npos) << error;
              }
              EXPECT_THROW(optimizer.step(closure), c10::Error);
              if (rank == 0) loss_of(parameters, 3, rank).backward();
              optimizer.set_found_inf(torch::ones({}));  // skips the step
              EXPECT_EQ(error_of_step(optimizer), "") << "one rank with gradients is enough";
              optimizer.set_found_inf({});
            }),
            no_errors(3));
}

TEST(ReductionFaults, AnotherCallOnARank) {
  EXPECT_EQ(errors_around([](int rank, AdamW& optimizer, const Tensors& parameters) {
              loss_of(parameters, 3, rank).backward();
              if (rank == 1)
                EXPECT_THROW(optimizer.fp32_weights(), c10::Error);
              else
                EXPECT_NE(error_of_step(optimizer).find("fp32_weights()"), std::string::npos);
              optimizer.set_found_inf(torch::ones({}));  // skips the step
              EXPECT_EQ(error_of_step(optimizer), "") << "the gradients are still there";
              optimizer.set_found_inf({});
            }),
            no_errors(3));
}

TEST(ReductionFaults, AStepThatFailsLaterCanBeRepeated) {
  EXPECT_EQ(on_ranks(2,
                     [](int rank, const Group& group) {
                       const auto train = [&](bool fails) {
                         const Tensors parameters = model();
                         AdamW optimizer(parameters, AdamWOptions(0.01));
                         optimizer.shard(group, own_gradients());
                         step(rank, optimizer, parameters, 1);
                         loss_of(parameters, 2, rank).backward();
                         optimizer.capturable(fails && rank == 1);
                         if (fails) {
                           EXPECT_NE(error_of_step(optimizer), "");
                         }
                         optimizer.capturable(false);
                         optimizer.compile();  // does not read the parts of gradients
                         optimizer.step();
                         return parameters;
                       };
                       expect_equal(train(true), train(false), "parameter");
                     }),
            no_errors(2));
}

TEST(ReductionFaults, AGradientThatWasSetByHand) {
  EXPECT_EQ(errors_around([](int rank, AdamW& optimizer, const Tensors& parameters) {
              loss_of(parameters, 3, rank).backward();
              if (rank == 1) parameters[2].mutable_grad() = torch::ones({});
              const std::string error = error_of_step(optimizer);
              EXPECT_NE(error.find(rank == 1 ? "parameter 2" : "rank 1"), std::string::npos);
              parameters[2].mutable_grad().reset();
            }),
            no_errors(3));
}

// A segment whose gradients an inner backward() computes, as re-entrant checkpointing does.
struct Segment : torch::autograd::Function<Segment> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& p) {
    context->save_for_backward({x, p});
    return x * p.sum();
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               const torch::autograd::tensor_list& g) {
    const auto saved = context->get_saved_variables();
    const auto x = saved[0].detach().set_requires_grad(true);
    const torch::AutoGradMode on(true);
    (x * saved[1].sum()).backward(g[0]);
    return {x.grad(), torch::Tensor()};
  }
};

TEST(ReductionFaults, ASecondGradientOfAParameterInOneBackward) {
  EXPECT_EQ(errors_around([](int, AdamW& optimizer, const Tensors& parameters) {
              const auto x = torch::ones({1}).set_requires_grad(true);
              const auto once = Segment::apply(x, parameters[0]);
              EXPECT_THROW(Segment::apply(once, parameters[0]).sum().backward(), c10::Error);
              EXPECT_NE(error_of_step(optimizer), "");
            }),
            no_errors(3));
}

TEST(ReductionFaults, ANestedBackwardIsNoMicroBatch) {
  EXPECT_EQ(on_ranks(2,
                     [](int, const Group& group) {
                       const auto train = [&](bool nested) {
                         const Tensors parameters = model();
                         AdamW optimizer(parameters, AdamWOptions(0.01));
                         optimizer.shard(group, own_gradients());
                         const auto x = torch::full({1}, 3.0).set_requires_grad(true);
                         const torch::Tensor& p = parameters[0];
                         const auto y = nested ? Segment::apply(x, p) : x * p.sum();
                         (y.sum() + parameters[1].sum()).backward();
                         optimizer.step();
                         return parameters;
                       };
                       expect_equal(train(true), train(false), "parameter");
                     }),
            no_errors(2));
}

// Two ranks with these options. Returns their errors of shard(), which must leave an optimizer that works alone.
std::vector<std::string> errors_of_shard(
    const std::function<ShardOptions(int rank)>& options,
    const std::function<std::shared_ptr<void>(int rank, const Tensors& parameters)>& prepare = {}) {
  return on_ranks(
      2,
      [&](int rank, const Group& group) {
        const Tensors parameters = model();
        AdamW optimizer(parameters, AdamWOptions(0.01));
        const auto other = prepare ? prepare(rank, parameters) : nullptr;
        EXPECT_THROW(
            try { optimizer.shard(group, options(rank)); } catch (...) {
              EXPECT_FALSE(optimizer.reduces_in_backward());
              if (other == nullptr) {
                loss_of(parameters, 1, rank).backward();
                EXPECT_TRUE(parameters[0].grad().defined()) << "there are no hooks";
              }
              throw;
            },
            c10::Error);
        optimizer.shard(group, options(rank));
      },
      std::chrono::seconds(20));
}

TEST(ReductionFaults, OtherOptionsOnARank) {
  for (const std::string& error :
       errors_of_shard([](int rank) { return own_gradients().bucket_bytes(1000 * (rank + 1)); }))
    EXPECT_NE(error.find("rank 1 has other ShardOptions"), std::string::npos) << error;
}

TEST(ReductionFaults, HooksThatAreTaken) {
  const auto errors =
      errors_of_shard([](int) { return own_gradients(); },
                      [](int rank, const Tensors& parameters) {
                        return rank == 1 ? std::make_shared<GradAccumulator>(parameters) : nullptr;
                      });
  EXPECT_NE(errors[0].find("rank 1 failed"), std::string::npos) << errors[0];
  EXPECT_NE(errors[1].find("GradAccumulator"), std::string::npos) << errors[1];
}

TEST(ReductionFaults, OptionsThatAreInvalid) {
  EXPECT_EQ(on_ranks(1,
                     [](int, const Group& group) {
                       AdamW optimizer(model(), AdamWOptions(0.01));
                       const auto refused = [&](const ShardOptions& options) {
                         EXPECT_THROW(optimizer.shard(group, options), c10::Error);
                       };
                       refused(own_gradients().micro_batches(0));
                       refused(own_gradients().bucket_bytes(-1));
                       refused(own_gradients(false).micro_batches(2));
                       refused(ShardOptions().in_backward(true));
                       optimizer.shard(group, own_gradients());
                       EXPECT_THROW(optimizer.step_in_backward(), c10::Error);
                     }),
            no_errors(1));
}

}  // namespace
}  // namespace jitstep::tests
