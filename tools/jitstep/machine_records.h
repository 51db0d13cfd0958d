// Tuning records of kernels on a target, for the subcommands that show or compile kernels.
#pragma once

#include <jit/tuning/hardware.h>
#include <jit/tuning/tuning_record.h>
#include <jitstep/jit/kernel_config.h>

#include <vector>

namespace jitstep::tool {

/// The CPU of this machine, and its GPUs.
std::vector<jit::Hardware> hardware_here();

/// The config that a kernel runs in for this size. Uses the hardware of this machine if it has the target, else only
/// the target's architecture.
jit::ConfigChoice chosen_config(const jit::Plan& plan, const jit::Target& target,
                                const jit::WorkSize& size);

/// All records of the kernel on machines of this architecture, for any size, best match first.
std::vector<jit::TuningRecord> records_of(const jit::Plan& plan, const jit::Target& target);

}  // namespace jitstep::tool
