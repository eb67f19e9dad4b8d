import type { Logger } from 'pino'
import { open, seal } from '../../shared/sealing.js'
import { StoredDocument } from '../store/document.js'
import type { Store } from '../store/store.js'
import type { Challenge } from './acme/obtain.js'
import { factsOf, type KeyedChain } from './certificate.js'
import { noAttempts, type RenewalState } from './plan-renewal.js'

/** Sources of the certificate. */
export const tlsModes = ['disabled', 'self_signed', 'uploaded', 'letsencrypt'] as const
export type TlsMode = (typeof tlsModes)[number]

/** A stored certificate: everything except the key is readable. */
export interface StoredCertificate {
  readonly mode: TlsMode
  /** Name or address that it was created or uploaded for. */
  readonly target: string
  readonly chainPem: string
  /** See `sealing.ts`. */
  readonly sealedKey: string
  /** SHA-256, hexadecimal with colons. */
  readonly fingerprint: string
  /** True if clients that know only the usual roots trust it for the target. */
  readonly trusted: boolean
}

/** TLS of all gateways on the store. */
export interface TlsSettings {
  /** An id that differs after each change. "": never changed. */
  readonly change: string
  readonly enabled: boolean
  readonly mode: TlsMode
  /** "": not chosen yet. */
  readonly target: string
  /** Contact address for the certificate authority. */
  readonly email: string
  readonly current: StoredCertificate | null
  /** The former certificate, used if the current one cannot be. */
  readonly previous: StoredCertificate | null
}

/** A challenge that every gateway answers until a time. */
export type OpenChallenge = Challenge & { readonly untilMs: number }

/** Accounts at certificate authorities, by the URL of the directory; the key is sealed. */
type Accounts = Readonly<Record<string, { readonly sealedKey: string }>>

const untouched: TlsSettings = {
  change: '',
  enabled: false,
  mode: 'disabled',
  target: '',
  email: '',
  current: null,
  previous: null,
}

/** The settings without the other documents; reading them needs no secret. Create it before `store.start()`. */
export function tlsSettingsDocument(store: Store, log: Logger): StoredDocument<TlsSettings> {
  return new StoredDocument<TlsSettings>({ store, log, name: 'tls:settings', initial: untouched })
}

/** TLS documents that all gateways share. Create it before `store.start()`. */
export class TlsDocuments {
  readonly settings: StoredDocument<TlsSettings>
  readonly renewal: StoredDocument<RenewalState>
  /** Null: there is no open challenge. */
  readonly challenge: StoredDocument<OpenChallenge | null>
  readonly accounts: StoredDocument<Accounts>

  /** @param secret 32 bytes, the same in all gateways on the store */
  constructor(
    store: Store,
    private readonly secret: Buffer,
    log: Logger,
  ) {
    const common = { store, log }
    this.settings = tlsSettingsDocument(store, log)
    this.renewal = new StoredDocument({ ...common, name: 'tls:renewal', initial: noAttempts })
    this.challenge = new StoredDocument<OpenChallenge | null>({ ...common, name: 'tls:challenge', initial: null })
    this.accounts = new StoredDocument<Accounts>({ ...common, name: 'tls:accounts', initial: {} })
  }

  /** Seals the key of a certificate to be stored. */
  sealed(material: KeyedChain, about: Pick<StoredCertificate, 'mode' | 'target' | 'trusted'>): StoredCertificate {
    const { fingerprint } = factsOf(material.chainPem)
    const sealedKey = seal(this.secret, material.keyPem, `tls-key:${fingerprint}`)
    return { ...about, chainPem: material.chainPem, sealedKey, fingerprint }
  }

  /** @throws {BerthError} `internal_error` for another secret */
  opened({ chainPem, sealedKey, fingerprint }: StoredCertificate): KeyedChain {
    return { chainPem, keyPem: open(this.secret, sealedKey, `tls-key:${fingerprint}`) }
  }

  /**
   * The key of this installation's account at an authority, created at first use.
   * @throws {BerthError} `store_unavailable`
   */
  async accountKey(directory: string, make: () => string): Promise<string> {
    const about = `acme-account:${directory}`
    const accounts = await this.accounts.update((old) =>
      Object.hasOwn(old, directory) ? old : { ...old, [directory]: { sealedKey: seal(this.secret, make(), about) } },
    )
    return open(this.secret, accounts[directory]?.sealedKey ?? '', about)
  }
}
