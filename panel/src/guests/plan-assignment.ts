/** Access to the guests of a customer. */
export interface Assignment {
  /** Reads the UUIDs of all guests of the customer. */
  read(): Promise<readonly string[]>
  /** Replaces the guests of the customer. */
  write(uuids: readonly string[]): Promise<void>
}

/**
 * Adds guests to those of a customer. The API can only replace all guests of a customer, so another change at the same
 * time may undo this one. The guests are therefore read again afterwards, and the change is repeated once.
 * @returns true if the customer has the guests
 */
export async function addGuests(assignment: Assignment, uuids: readonly string[], repeats = 1): Promise<boolean> {
  const before = await assignment.read()
  await assignment.write([...new Set([...before, ...uuids])])
  const after = await assignment.read()
  if (uuids.every((uuid) => after.includes(uuid))) return true
  return repeats > 0 && addGuests(assignment, uuids, repeats - 1)
}
