# cmake -DFROM=source -DTO=source -DTEXT=... -DBUG=... -P plant.cmake: copies a source file with one text replaced. Fails
# where the text is gone: then the bug has to be planted anew.
file(READ ${FROM} content)
string(FIND "${content}" "${TEXT}" place)
if(place EQUAL -1)
  message(FATAL_ERROR "${FROM} no longer has \"${TEXT}\"")
endif()
string(REPLACE "${TEXT}" "${BUG}" content "${content}")
file(WRITE ${TO} "${content}")
