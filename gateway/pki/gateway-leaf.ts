import type { Authority, KeyedCertificate } from './authority.js'

/** A certificate is renewed once this share of its lifetime is over. */
export const renewAfterShare = 2 / 3

/** When a certificate that ends at `notAfterMs` and was given for `lifetimeMs` should be replaced. */
export function renewAtMs(notAfterMs: number, lifetimeMs: number): number {
  return notAfterMs - lifetimeMs * (1 - renewAfterShare)
}

/** The gateway's own client certificate: made at start, kept in memory, replaced in time. */
export class GatewayLeaf {
  private constructor(
    private readonly authority: Authority,
    private readonly lifetimeMs: number,
    private leaf: KeyedCertificate,
  ) {}

  static async issue(authority: Authority, lifetimeMs: number): Promise<GatewayLeaf> {
    return new GatewayLeaf(authority, lifetimeMs, await authority.issue({ role: 'gateway' }, lifetimeMs))
  }

  get current(): KeyedCertificate {
    return this.leaf
  }

  /** @returns whether a new one was made, which connections should move to */
  async renewIfDue(nowMs = Date.now()): Promise<boolean> {
    if (nowMs < renewAtMs(this.leaf.notAfterMs, this.lifetimeMs)) return false
    this.leaf = await this.authority.issue({ role: 'gateway' }, this.lifetimeMs)
    return true
  }
}
