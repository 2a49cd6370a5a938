"""A kernel's loops as eager operators: where no kernel can be, and beside each kernel in accuracy mode."""
