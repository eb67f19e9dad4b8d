import { createHmac } from 'node:crypto'
import { open, seal } from '../../shared/sealing.js'
import type { Login } from '../drivers/machine.js'
import type { GuestRecord } from './record/record.js'

/** Encrypts guests' logins before they are stored. A login can be decrypted only for its own guest. */
export class LoginVault {
  constructor(private readonly key: Buffer) {}

  seal(uuid: string, login: Login): string {
    return seal(this.key, JSON.stringify(login), uuid)
  }

  /** Decrypts the guest's login. @returns `{}` if the guest has no login */
  open({ uuid, login }: Pick<GuestRecord, 'uuid' | 'login'>): Login {
    return login === null ? {} : (JSON.parse(open(this.key, login, uuid)) as Login)
  }

  /** Returns a keyed digest. Secrets can be compared by their digests without being stored. */
  digest(secret: string): string {
    return createHmac('sha256', this.key).update(secret).digest('base64url')
  }
}
