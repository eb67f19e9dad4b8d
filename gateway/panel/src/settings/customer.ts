/** What is shown once, when it is made or its password is. */
export interface Credentials {
  readonly username: string
  readonly password: string
  readonly access_code: string
}
