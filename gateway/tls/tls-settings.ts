import type { Logger } from 'pino'
import { open, seal } from '../../shared/sealing.js'
import { StoredDocument } from '../store/document.js'
import type { Store } from '../store/store.js'
import type { Challenge } from './acme/obtain.js'
import { factsOf, type KeyedChain } from './certificate.js'
import { noAttempts, type RenewalState } from './plan-renewal.js'

/** Modes of TLS: disabled, or the origin of the certificate. */
export const tlsModes = ['disabled', 'self_signed', 'uploaded', 'letsencrypt'] as const
export type TlsMode = (typeof tlsModes)[number]

/** A stored certificate. Only its private key is encrypted. */
export interface StoredCertificate {
  readonly mode: TlsMode
  /** Name or address for which the certificate was created or uploaded. */
  readonly target: string
  readonly chainPem: string
  /** Encrypted private key, see `sealing.ts`. */
  readonly sealedKey: string
  /** SHA-256 of the certificate, in hexadecimal with colons. */
  readonly fingerprint: string
  /** True if clients that trust only the usual authorities accept the certificate for its `target`. */
  readonly trusted: boolean
}

/** TLS settings of all gateways on the store. */
export interface TlsSettings {
  /** An id that changes with each change of the settings. "": the settings were never changed. */
  readonly change: string
  readonly enabled: boolean
  readonly mode: TlsMode
  /** Name or address of the gateways. "": none has been chosen. */
  readonly target: string
  /** Mail address for the certificate authority. */
  readonly email: string
  readonly current: StoredCertificate | null
  /** The previous certificate, which is used if the current one cannot be used. */
  readonly previous: StoredCertificate | null
}

/** A challenge that all gateways answer until `untilMs`. */
export type OpenChallenge = Challenge & { readonly untilMs: number }

/** Accounts at certificate authorities, by the URL of the directory. The keys are encrypted. */
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

/** The document with the TLS settings. It can be read without a secret. Create it before `store.start()`. */
export function tlsSettingsDocument(store: Store, log: Logger): StoredDocument<TlsSettings> {
  return new StoredDocument<TlsSettings>({ store, log, name: 'tls:settings', initial: untouched })
}

/** Documents about TLS that all gateways share. Create them before `store.start()`. */
export class TlsDocuments {
  readonly settings: StoredDocument<TlsSettings>
  readonly renewal: StoredDocument<RenewalState>
  /** Challenge that the certificate authority can request now. null if no challenge is open. */
  readonly challenge: StoredDocument<OpenChallenge | null>
  readonly accounts: StoredDocument<Accounts>

  /** @param secret 32 secret bytes, the same in all gateways on the store */
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

  /** Encrypts the key of a certificate, so that the certificate can be stored. */
  sealed(material: KeyedChain, about: Pick<StoredCertificate, 'mode' | 'target' | 'trusted'>): StoredCertificate {
    const { fingerprint } = factsOf(material.chainPem)
    const sealedKey = seal(this.secret, material.keyPem, `tls-key:${fingerprint}`)
    return { ...about, chainPem: material.chainPem, sealedKey, fingerprint }
  }

  /** Decrypts the key of a certificate. @throws {BerthError} `internal_error` if another secret encrypted the key */
  opened({ chainPem, sealedKey, fingerprint }: StoredCertificate): KeyedChain {
    return { chainPem, keyPem: open(this.secret, sealedKey, `tls-key:${fingerprint}`) }
  }

  /**
   * Returns the key of this installation's account at an authority. It is created at its first use.
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
