/** Host names and addresses that lead only to the user's own computer. */
const ownMachine = /^(localhost|.*\.localhost|127\..*|\[::1\]|0\.0\.0\.0|\[::\])$/

/**
 * Returns a link that the user can give to other people.
 * @param known link from the gateway; "" if the gateway does not know its public URL
 * @returns "" if this page was opened at an address that others cannot use
 */
export function publicLink(known: string, path: string): string {
  if (known !== '') return known
  return ownMachine.test(location.hostname) ? '' : location.origin + path
}
