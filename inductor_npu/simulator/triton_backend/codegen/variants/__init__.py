"""Operations with code of their own, beside the ordinary loop nest."""
