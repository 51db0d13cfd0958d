static_assert(__cplusplus == 201703L, "jitstep must not change the standard of other targets");
