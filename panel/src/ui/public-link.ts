/** Host names and addresses that lead only to the user's own computer. */
const ownMachine = /^(localhost|.*\.localhost|127\..*|\[::1\]|0\.0\.0\.0|\[::\])$/

/**
 * Returns a link that the user can give to others.
 * @param known link from the gateway; "" if the gateway does not know its public URL
 * @returns "" if the gateway knows no link and this page has an address that others cannot use
 */
export function publicLink(known: string, path: string): string {
  if (known !== '') return known
  return ownMachine.test(location.hostname) ? '' : location.origin + path
}
