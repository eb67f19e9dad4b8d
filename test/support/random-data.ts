/**
 * Shell function `random SIZE`: writes random bytes to its output. It encrypts zeros with a random key, because this
 * takes a third of the processor time of /dev/urandom.
 */
export const randomFunction = `
random() {
  {
    openssl enc -aes-128-ctr -K "$(od -An -N16 -tx1 /dev/urandom | tr -d ' ')" -iv ${'0'.repeat(32)} \\
      -bufsize 1048576 </dev/zero 2>/dev/null || :
  } | head -c "$1"
}
`
