/** Names and addresses that lead back to the user's own computer. */
const ownMachine = /^(localhost|.*\.localhost|127\..*|\[::1\]|0\.0\.0\.0|\[::\])$/

/**
 * A link for other people.
 * @param known link from the gateway; "": it does not know its public URL
 * @returns "": this page was opened at an address that others cannot use
 */
export function publicLink(known: string, path: string): string {
  if (known !== '') return known
  return ownMachine.test(location.hostname) ? '' : location.origin + path
}
