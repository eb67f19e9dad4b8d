import type { Authority, KeyedCertificate } from './authority.js'

/** Share of a certificate's lifetime after which it is renewed. */
export const renewAfterShare = 2 / 3

/** Time to replace a certificate that ends at `notAfterMs` and was issued for `lifetimeMs`. */
export function renewAtMs(notAfterMs: number, lifetimeMs: number): number {
  return notAfterMs - lifetimeMs * (1 - renewAfterShare)
}

/** The gateway's own client certificate: made at start, kept in memory, renewed in time. */
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

  /** @returns whether it was renewed, so that connections should move to it */
  async renewIfDue(nowMs = Date.now()): Promise<boolean> {
    if (nowMs < renewAtMs(this.leaf.notAfterMs, this.lifetimeMs)) return false
    this.leaf = await this.authority.issue({ role: 'gateway' }, this.lifetimeMs)
    return true
  }
}
