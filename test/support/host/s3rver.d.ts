declare module 's3rver' {
  import type { IncomingMessage, ServerResponse } from 'node:http'

  export default class S3rver {
    constructor(options: { silent: boolean; directory: string; configureBuckets: readonly { name: string }[] })
    configureBuckets(): Promise<void>
    callback(): (request: IncomingMessage, response: ServerResponse) => Promise<void>
  }
}
