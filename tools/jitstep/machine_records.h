// What tuning records know about kernels on a target, for the subcommands that show or compile them.
#pragma once

#include <jit/codegen/hardware.h>
#include <jit/codegen/tuning_record.h>
#include <jitstep/jit/kernel_config.h>

#include <vector>

namespace jitstep::tool {

/// The processors of this machine, and its GPUs.
std::vector<jit::Hardware> hardware_here();

/// How a kernel of this size is run there, on what is here of this target or else on any machine of its architecture.
jit::ConfigChoice chosen_config(const jit::Plan& plan, const jit::Target& target,
                                 const jit::WorkSize& size);

/// All that is known of the kernel on machines of this architecture, of any size, in the order in which it counts.
std::vector<jit::TuningRecord> records_of(const jit::Plan& plan, const jit::Target& target);

}  // namespace jitstep::tool
