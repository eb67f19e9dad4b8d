import type { BerthClient } from '../../client/index.js'
import { isNotFound, type Names } from './names.js'

/** The fields of a guest that commands of this program use. */
export interface Guest {
  readonly id: number
  readonly uuid: string
  readonly name: string
  readonly virtualization: 'lxc' | 'kvm'
  /** Command that logs in by SSH; empty: the address or the port is not known. */
  readonly ssh_command: string
}

interface GuestSource {
  readonly client: BerthClient
  readonly names: Names
}

/** Returns the guest with this id, name, UUID or beginning of a UUID. @throws {CliError} `notFound` */
export async function readGuest({ client, names }: GuestSource, text: string): Promise<Guest> {
  const read = async (id: string): Promise<Guest> => {
    const { body } = await client.send({ method: 'GET', path: `/containers/${encodeURIComponent(id)}` })
    return body.data as Guest
  }
  try {
    return await read(text)
  } catch (cause) {
    const known = isNotFound(cause) ? await names.correct(text) : undefined
    if (known === undefined) throw cause
    return read(known)
  }
}
