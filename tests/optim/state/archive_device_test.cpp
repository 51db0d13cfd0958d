// Checkpoints of a device that this machine does not have.
#include <caffe2/serialize/inline_container.h>

#include "optim/training.h"

namespace jitstep::tests {
namespace {

// A text in a pickle: its length in four bytes, then its characters.
std::string pickled(const std::string& text) {
  return std::string("X") + static_cast<char>(text.size()) + std::string(3, '\0') + text;
}

// The archive, with tensors of `device` instead of the CPU.
void move_tensors(const std::string& from, const std::string& to, const std::string& device) {
  caffe2::serialize::PyTorchStreamReader reader(from);
  caffe2::serialize::PyTorchStreamWriter writer(to);
  const std::string cpu = pickled("cpu"), other = pickled(device);
  std::size_t found = 0;
  for (const std::string& name : reader.getAllRecords()) {
    const auto [data, size] = reader.getRecord(name);
    std::string content(static_cast<const char*>(data.get()), size);
    for (std::size_t at = 0; (at = content.find(cpu, at)) != std::string::npos; ++found)
      content.replace(at, cpu.size(), other);
    if (name != "version" && !name.starts_with(".data/"))  // the writer makes these
      writer.writeRecord(name, content.data(), content.size());
  }
  writer.writeEndOfFile();
  EXPECT_GT(found, 0u);
}

TEST(ArchiveDevice, ACheckpointOfAnotherDeviceLoads) {
  const OwnFolder folder;
  const std::string saved = folder.path + "/saved.pt", moved = folder.path + "/moved.pt";
  Tensors parameters = make_parameters(), twin;
  AdamW optimizer(parameters, AdamWOptions().state("int8"));
  train(optimizer, parameters, 1, 2);
  optimizer.save(saved);
  move_tensors(saved, moved, "cuda:63");
  twin = clones(parameters);
  AdamW other(twin, AdamWOptions().state("int8"));
  EXPECT_THROW(torch::load(other, moved), c10::Error) << "no tensor is of the device";
  other.load(moved);
  train(optimizer, parameters, 3, 4);
  train(other, twin, 3, 4);
  expect_equal(parameters, twin);
}

}  // namespace
}  // namespace jitstep::tests
