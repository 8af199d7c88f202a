// Sealing and verifying as plain loops over host memory: the definition of correct. Arguments are those of
// launch_checksum.h; device pointers are host pointers here.
#pragma once

#include "kernels/launch_checksum.h"

namespace sdp4bit::reference {

void seal_checksums(const ChecksummedParts& parts);
void verify_checksums(const VerifyChecksumsArgs& args);
void fill_damaged(const FillDamagedArgs& args);

}  // namespace sdp4bit::reference
